#include "daemon/network/relay_end.h"

#include <algorithm>
#include <utility>

#include "daemon/network/network_thread.h"

namespace locksley::daemon {

RelayEnd::RelayEnd(std::shared_ptr<Relay> relay, NetworkThread& thread, RelayedConnection& connection,
                   RelayOwner& owner)
    : relay_(std::move(relay)),
      thread_(thread),
      connection_(connection),
      owner_(owner),
      taken_(relay_->make_buffer()) {
  relay_->set_end(this);
}

RelayEnd::~RelayEnd() {
  kIoThread.assert_held();
  relay_->set_end(nullptr);
  give_order(Relay::Order::kClose);
  thread_.forget();
}

void RelayEnd::give_order(Relay::Order order) {
  if (relay_->order(order, thread_.stats().io_waits)) thread_.notify(connection_);
}

void RelayEnd::take_input() {
  if (!taken_.empty() || is_ended_) return;
  has_news_ = false;
  const Relay::Input input = relay_->take_input(taken_, thread_.stats().io_waits);
  is_ended_ = input.is_end;
  if (input.tells_network) thread_.notify(connection_);
}

RelayEnd::Received RelayEnd::receive(std::span<std::byte> space) {
  take_input();
  const auto bytes = std::as_bytes(std::span(taken_.rest().substr(0, space.size())));
  std::copy_n(bytes.data(), bytes.size(), space.data());  // std::ranges::copy of g++ 12 goes byte by byte
  taken_.consume(bytes.size());
  return {.bytes = bytes.size(), .is_end = is_ended_ && taken_.empty()};
}

std::optional<std::size_t> RelayEnd::send(std::span<const std::string_view> views) {
  const auto put = relay_->put_output(views, thread_.stats().io_waits);
  if (!put) return {};
  is_short_of_room_ = put->is_short;
  if (put->bytes != 0) {
    is_sent_ = false;
    has_sent_since_ = true;
  }
  if (put->tells_network) thread_.notify(connection_);
  return put->bytes;
}

bool RelayEnd::is_sent() {
  if (!is_sent_ && !std::exchange(asks_if_sent_, true)) {
    has_sent_since_ = false;
    give_order(Relay::Order::kReport);
  }
  return is_sent_;
}

void RelayEnd::await_input() {
  if (std::exchange(awaits_input_, true) || !may_have_input()) return;
  thread_.ready().add(relay_, Relay::News::kInput, thread_.stats().io_waits);
}

void RelayEnd::await_room() {
  if (std::exchange(awaits_room_, true) || is_short_of_room_) return;
  thread_.ready().add(relay_, Relay::News::kRoom, thread_.stats().io_waits);
}

void RelayEnd::shut() { give_order(Relay::Order::kShut); }

void RelayEnd::set_line(LineNumber line) { relay_->set_line(line, thread_.stats().io_waits); }

bool RelayEnd::discard() {
  taken_.clear();
  take_input();
  taken_.clear();
  return is_ended_;
}

void RelayEnd::take_news(Relay::News news) {
  bool tells_owner = true;
  switch (news) {
    case Relay::News::kInput:
      has_news_ = true;
      tells_owner = std::exchange(awaits_input_, false);
      break;
    case Relay::News::kRoom:
      is_short_of_room_ = false;
      tells_owner = std::exchange(awaits_room_, false);
      break;
    case Relay::News::kSent:
      asks_if_sent_ = false;
      is_sent_ = !has_sent_since_;
      break;
  }
  if (tells_owner) owner_.socket_is_ready();
}

}  // namespace locksley::daemon
