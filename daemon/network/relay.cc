#include "daemon/network/relay.h"

#include <algorithm>
#include <utility>

namespace locksley::daemon {

Relay::Input Relay::take_input(RelayBuffer& into, OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  into.swap(input_);
  awaits_input_ = !is_ended_;
  const bool tells = std::exchange(is_full_, false) && !std::exchange(network_is_told_, true);
  return {.is_end = is_ended_, .tells_network = tells};
}

std::optional<Relay::Put> Relay::put_output(std::span<const std::string_view> views, OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  if (has_failed_) return {};
  std::size_t wanted = 0;
  for (const std::string_view view : views) wanted += view.size();
  if (wanted > output_.room() && line_ != kStrangersLine) output_.grow();
  const std::size_t bytes = std::min(wanted, output_.room());
  std::size_t left = bytes;
  for (const std::string_view view : views) {
    const std::string_view fits = view.substr(0, left);
    output_.append(fits);
    left -= fits.size();
  }
  awaits_room_ = awaits_room_ || bytes < wanted;
  const bool tells = bytes != 0 && !std::exchange(network_is_told_, true);
  return Put{.bytes = bytes, .is_short = bytes < wanted, .tells_network = tells};
}

bool Relay::order(Order order, OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  switch (order) {
    case Order::kReport:
      reports_ = true;
      break;
    case Order::kShut:
      shuts_ = true;
      break;
    case Order::kClose:
      closes_ = true;
      break;
  }
  return !std::exchange(network_is_told_, true);
}

void Relay::set_line(LineNumber line, OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  line_ = line;
}

std::size_t Relay::room_for_input(bool wants_much, OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  if (wants_much && line_ != kStrangersLine) input_.grow();
  is_full_ = input_.room() == 0;
  return input_.room();
}

bool Relay::push_input(std::string_view bytes, OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  input_.append(bytes);
  if (input_.empty()) input_.clear();
  return !bytes.empty() && std::exchange(awaits_input_, false);
}

bool Relay::end_input(OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  is_ended_ = true;
  return std::exchange(awaits_input_, false);
}

Relay::Orders Relay::take_orders(OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  network_is_told_ = false;
  return {.is_full = is_full_,
          .reports = std::exchange(reports_, false),
          .shuts = std::exchange(shuts_, false),
          .closes = closes_,
          .line = line_};
}

bool Relay::take_output(RelayBuffer& into, OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  into.swap(output_);
  return std::exchange(awaits_room_, false);
}

Relay::Failed Relay::fail(OwnedCounter& waits) {
  const CountedLock lock(mutex_, waits);
  has_failed_ = true;
  is_ended_ = true;
  output_.clear();
  return {.tells_input = std::exchange(awaits_input_, false),
          .tells_room = std::exchange(awaits_room_, false)};
}

}  // namespace locksley::daemon
