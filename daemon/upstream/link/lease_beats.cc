#include "daemon/upstream/link/lease_beats.h"

#include <algorithm>
#include <cstddef>

namespace locksley::daemon {

using State = HeldLease::State;

void LeaseBeats::joined(Nanoseconds every) {
  beat_every_ = every;
  beat_at_ = pipeline_.now() + interval();
}

void LeaseBeats::came(const HeldLease& lease) {
  if (lease.has_timeout) beat_at_ = std::min(beat_at_, pipeline_.now() + kBeatsOfTimeouts);
}

void LeaseBeats::drop_ended_looks() {
  const auto runs = [this](LeaseKey key) {
    const HeldLease* const lease = leases_.find(key);
    return lease != nullptr && lease->state == State::kRunning;
  };
  while (!new_leases_.empty() && !runs(new_leases_.front().first)) new_leases_.pop_front();
}

// ---- BEAT ----

std::optional<Nanoseconds> LeaseBeats::next_beat() const {
  return leases_.has_names() ? std::optional(beat_at_) : std::nullopt;
}

void LeaseBeats::advance() {
  if (pipeline_.now() < beat_at_) return;
  beat_at_ = pipeline_.now() + interval();
  if (leases_.has_names()) beat();
}

void LeaseBeats::beat_now() {
  beat_at_ = pipeline_.now() + interval();
  beat();
}

Nanoseconds LeaseBeats::interval() const {
  const bool has_timeouts =
      std::ranges::any_of(leases_.all(), [](const auto& each) { return each.second.has_timeout; });
  return has_timeouts ? std::min(beat_every_, kBeatsOfTimeouts) : beat_every_;
}

void LeaseBeats::beat() {
  std::size_t held = 0;
  const auto is_told = [](const HeldLease& lease) {
    return !lease.name.empty() && lease.state != State::kEnded;
  };
  for (const auto& [key, lease] : leases_.all()) held += is_told(lease) ? 1U : 0U;
  if (held == 0) return;
  proto::CommandWriter writer = pipeline_.begin({.kind = AwaitedReply::Kind::kBeat}, 1 + 2 * held);
  writer.argument("BEAT");
  for (const auto& [key, lease] : leases_.all()) {
    if (!is_told(lease)) continue;
    const bool runs = lease.state == State::kRunning;
    writer.argument(lease.name);
    writer.argument(runs ? std::clamp(host_.next(key), lease.range.low, lease.range.high) : lease.range.low);
  }
}

// ---- Leases that wait here ----

std::optional<Nanoseconds> LeaseBeats::next_check() const {
  std::optional<Nanoseconds> next;
  if (!new_leases_.empty()) next = new_leases_.front().second + kLook;
  if (!waiting_.empty()) next = next ? std::min(*next, waiting_look_at_) : waiting_look_at_;
  return next;
}

bool LeaseBeats::check_leases() {
  const Nanoseconds now = pipeline_.now();
  bool has_news = look_at_waiting();
  while (!new_leases_.empty() && now - new_leases_.front().second >= kLook) {
    const HeldLease* const lease = leases_.find(new_leases_.front().first);
    new_leases_.pop_front();
    if (lease == nullptr || lease->name.empty() || lease->state != State::kRunning) continue;
    if (host_.next(lease->key) > lease->range.low) continue;
    has_news = true;
    waiting_look_at_ = waiting_.empty() ? now + kLook : std::min(waiting_look_at_, now + kLook);
    waiting_.emplace_back(lease->key, now);
  }
  return has_news;
}

bool LeaseBeats::look_at_waiting() {
  const Nanoseconds now = pipeline_.now();
  if (waiting_.empty() || now < waiting_look_at_) return false;
  bool has_begun = false;
  Nanoseconds shortest = Nanoseconds::max();
  std::erase_if(waiting_, [&](const auto& waiting) {
    const HeldLease* const lease = leases_.find(waiting.first);
    if (lease == nullptr || lease->state != State::kRunning) return true;
    if (host_.next(lease->key) > lease->range.low) return has_begun = true;
    shortest = std::min(shortest, now - waiting.second);
    return false;
  });
  waiting_look_at_ = now + std::clamp<Nanoseconds>(shortest / 16, kLook, kSeldomLook);
  return has_begun;
}

}  // namespace locksley::daemon
