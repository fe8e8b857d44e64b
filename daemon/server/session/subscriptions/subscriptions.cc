#include "daemon/server/session/subscriptions/subscriptions.h"

#include <iterator>

#include "daemon/base/freed_memory.h"
#include "daemon/base/time.h"
#include "daemon/server/accounts/tenants.h"
#include "proto/glob.h"

namespace locksley::daemon {

namespace {

// The bytes of a subscription without its name, which is stored twice: nodes of three trees.
// Measured over 400,000 with names of ten bytes.
constexpr std::uint64_t kTopicBytes = 256;

std::uint64_t bytes_of_topic(std::string_view topic) { return kTopicBytes + 2 * topic.size(); }

}  // namespace

std::uint64_t Subscriptions::bytes_of(const ChannelEvent& event) {
  return sizeof event + event.channel.size() + event.message->size();
}

void Subscriptions::count_subscriber(std::int64_t change) {
  subscribers_.add(static_cast<std::uint64_t>(change));
}

void Subscriptions::add(Kind kind, const std::string& topic) {
  const bool was_empty = empty();
  if (!(kind == Kind::kChannel ? channels_ : patterns_).insert(topic).second) return;
  topic_bytes_ += bytes_of_topic(topic);
  if (kind == Kind::kChannel) {
    events_.subscribe(*this, audience_of(topic), topic);
  } else if (patterns_.size() == 1) {
    events_.subscribe_to_all(*this, audience_);
  }
  if (was_empty) count_subscriber(1);
}

void Subscriptions::remove(Kind kind, const std::string& topic) {
  if ((kind == Kind::kChannel ? channels_ : patterns_).erase(topic) == 0) return;
  topic_bytes_ -= bytes_of_topic(topic);
  if (kind == Kind::kChannel) {
    events_.unsubscribe(*this, audience_of(topic), topic);
  } else if (patterns_.empty()) {
    events_.unsubscribe_from_all(*this, audience_);
  }
  if (empty()) count_subscriber(-1);
}

void Subscriptions::clear() { clear_until(Instant::max()); }

bool Subscriptions::clear_until(Instant until) {
  const bool was_empty = empty();
  while (!channels_.empty()) {
    const auto first = channels_.begin();
    topic_bytes_ -= bytes_of_topic(*first);
    events_.unsubscribe(*this, audience_of(*first), *first);
    channels_.erase(first);
    if (until != Instant::max() && !channels_.empty() && now() >= until) return false;
  }
  if (!patterns_.empty()) events_.unsubscribe_from_all(*this, audience_);
  patterns_.clear();
  moved_up_to_.reset();
  topic_bytes_ = 0;
  if (!was_empty) count_subscriber(-1);
  return drop_waiting_until(until);
}

bool Subscriptions::drop_waiting_until(Instant until) {
  constexpr std::size_t kAtOnce = 64;  // some 15 us
  matched_up_to_.clear();
  for (std::size_t dropped = 0; !waiting_.empty();) {
    waiting_bytes_ -= bytes_of(waiting_.front());
    waiting_.pop_front();
    if (++dropped % kAtOnce != 0) continue;
    sort_freed_memory();
    if (until != Instant::max() && now() >= until) break;
  }
  return waiting_.empty();
}

bool Subscriptions::take_back_until(Instant until) {
  while (moved_up_to_) {
    const auto after = channels_.upper_bound(*moved_up_to_);
    if (after == channels_.begin()) {  // those that had moved are not there any more
      moved_up_to_.reset();
      break;
    }
    const auto last = std::prev(after);
    events_.unsubscribe(*this, moving_to_, *last);
    events_.subscribe(*this, audience_, *last);
    if (last == channels_.begin()) {
      moved_up_to_.reset();
    } else {
      moved_up_to_ = *std::prev(last);
    }
    if (until != Instant::max() && now() >= until) break;
  }
  return !moved_up_to_;
}

bool Subscriptions::move_until(std::string_view audience, Instant until) {
  if (moved_up_to_ && moving_to_ != audience && !take_back_until(until)) return false;
  if (audience_ == audience) {
    restricted_to_.reset();
    return true;
  }
  auto next = moved_up_to_ ? channels_.upper_bound(*moved_up_to_) : channels_.begin();
  for (; next != channels_.end(); ++next) {
    events_.unsubscribe(*this, audience_, *next);
    events_.subscribe(*this, audience, *next);
    if (until == Instant::max() || now() < until) continue;
    moving_to_ = audience;
    moved_up_to_ = *next;
    return false;
  }
  moved_up_to_.reset();
  // The waiting events were published while the connection was allowed to receive them.
  if (!patterns_.empty()) {
    events_.unsubscribe_from_all(*this, audience_);
    events_.subscribe_to_all(*this, audience);
  }
  audience_ = audience;
  restricted_to_.reset();
  return true;
}

void Subscriptions::restrict_to(std::string_view audience) {
  restricted_to_.reset();
  if (audience != Events::kEverything) restricted_to_ = audience;
}

std::string_view Subscriptions::audience_of(std::string_view channel) const {
  return moved_up_to_ && channel <= *moved_up_to_ ? moving_to_ : audience_;
}

bool Subscriptions::may_receive(const ChannelEvent& event) const {
  const bool is_allowed = !restricted_to_ || (event.owner != nullptr && event.owner->name == *restricted_to_);
  return is_allowed && sink_.takes_messages();
}

void Subscriptions::deliver(const ChannelEvent& event) {
  if (may_receive(event)) sink_.write_message({}, event.channel, *event.message);
}

void Subscriptions::queue_event(const ChannelEvent& event) {
  if (!may_receive(event)) return;
  waiting_.push_back(event);
  waiting_bytes_ += bytes_of(event);
  sink_.event_waits();
}

bool Subscriptions::match_until(Instant deadline) {
  if (patterns_.empty()) return drop_waiting_until(deadline);
  while (!waiting_.empty() && sink_.takes_messages()) {
    const ChannelEvent& event = waiting_.front();
    auto pattern = matched_up_to_.empty() ? patterns_.begin() : patterns_.upper_bound(matched_up_to_);
    for (; pattern != patterns_.end(); ++pattern) {
      if (now() > deadline) return false;
      if (proto::glob_match(*pattern, event.channel)) {
        sink_.write_message(*pattern, event.channel, *event.message);
      }
      matched_up_to_ = *pattern;
    }
    matched_up_to_.clear();
    waiting_bytes_ -= bytes_of(event);
    waiting_.pop_front();
  }
  return true;
}

}  // namespace locksley::daemon
