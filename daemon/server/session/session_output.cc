#include "daemon/server/session/session_output.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

std::size_t SessionOutput::size() const {
  return sendable_.size() + sums().bytes + (held_.empty() ? 0 : held_.back().bytes.size());
}

std::size_t SessionOutput::memory_bytes() const {
  // Also what is held of a reply without bytes: its place in two queues.
  std::size_t sum = sendable_.memory_bytes() + sums().memory + held_.size() * kHeldBytes;
  if (!held_.empty()) sum += held_.back().bytes.memory_bytes();
  if (muted_ != nullptr) sum += muted_->memory_bytes();
  return sum;
}

const SessionOutput::Sums& SessionOutput::sums() const {
  const auto apart = std::exchange(apart_, std::nullopt);
  if (!std::exchange(are_sums_old_, false)) {
    if (apart) sums_.add(entry(*apart));
  } else {
    sums_ = {};
    for (const Held& held : held_) sums_.add(held);
    if (!held_.empty()) sums_.subtract(held_.back());
  }
  return sums_;
}

void SessionOutput::set_apart(HeldNumber number) {
  const bool is_last = number + 1 == sent_ + held_.size();
  if (is_last || are_sums_old_ || apart_ == number) return;
  (void)sums();
  sums_.subtract(entry(number));
  apart_ = number;
}

void SessionOutput::push(Held held) {
  if (!held_.empty()) {
    sums_.add(held_.back());
    if (under_way_) whole_before_ += held_.back().bytes.size();
  }
  held_.push_back(std::move(held));
}

void SessionOutput::hold(Ticket ticket, Ticket earlier) {
  if (!held_.empty()) {
    const Held& last = held_.back();
    const bool is_full = last.parts.size() >= kMostMarked || last.bytes.size() >= kMostBytes;
    if (last.place && last.ticket == ticket && last.earlier == earlier && !is_full) return;
  }
  Held::Place earlier_place;
  if (earlier != 0) earlier_place = place_for(earlier);
  push({.ticket = ticket,
        .earlier = earlier,
        .place = place_for(ticket),
        .earlier_place = earlier_place,
        .parts = std::exchange(spare_parts_, {}),
        .whole = under_way_});
  if (!under_way_) return;
  Held& whole = entry(*under_way_);
  ++whole.members;
  ++whole.unsettled;
}

HeldReplies::Place SessionOutput::place_for(Ticket ticket) {
  return queue_.hold(
      ticket, [this, held = sent_ + held_.size()](const std::string& error) { settled_(held, error); });
}

void SessionOutput::mark(std::size_t begin, std::size_t end) {
  if (begin != end) held_.back().parts.push_back({begin, end});
}

void SessionOutput::messages_follow() {
  check(!under_way_, "a message would come inside a whole reply");
  messages_follow_reply_ = sent_ + held_.size();
}

void SessionOutput::begin_whole() {
  check(!under_way_, "a whole reply in a whole reply");
  const HeldNumber number = sent_ + held_.size();
  push({.ticket = 0, .earlier = 0, .place = {}, .earlier_place = {}, .is_whole = true});
  under_way_ = number;
  whole_before_ = 0;
}

void SessionOutput::end_whole() {
  const auto ended = std::exchange(under_way_, std::nullopt);
  if (!ended) return;
  if (held_.size() > 1 && *ended == sent_ + held_.size() - 1) {
    // It waits for nothing but the replies before it.
    proto::OutputBuffer bytes = std::move(held_.back().bytes);
    held_.pop_back();
    are_sums_old_ = true;
    held_.back().bytes.append(std::move(bytes));
  }
  send_settled();
}

std::size_t SessionOutput::whole_bytes() const {
  return under_way_ ? whole_before_ + held_.back().bytes.size() : 0;
}

void SessionOutput::offer_early(int socket) {
  if (held_.size() != 1 || !sendable_.empty() || queue_.size() > EarlyReplies::kMost) return;
  Held& only = held_.front();
  if (only.is_whole || only.earlier_place || only.early || only.bytes.empty()) return;
  only.early = queue_.early().offer(only.ticket, socket, only.bytes);
}

std::size_t SessionOutput::take_back_early() {
  if (held_.empty() || !held_.front().early) return 0;
  Held& first = held_.front();
  are_sums_old_ = true;
  const std::size_t sent = queue_.early().take_back(*std::exchange(first.early, std::nullopt));
  if (sent == 0) return 0;
  // The store has written what these replies report. Their unsent bytes go first, before messages
  // that arrived meanwhile.
  first.bytes.consume(sent);
  first.bytes.append(std::move(sendable_));
  sendable_ = std::move(first.bytes);
  first.parts.clear();
  return sent;
}

std::size_t SessionOutput::release(HeldNumber number, std::string_view error, proto::Protocol protocol) {
  Held& held = entry(number);
  check(held.place.has_value(), "an outcome of the store for replies that wait for none");
  check(!held.early, "an outcome of the store before the writer gave the reply back");
  std::size_t errors = 0;
  if (!error.empty()) {
    errors = held.parts.size();
    set_apart(number);
    replace_marked(held, error, protocol);
  }
  if (held.earlier_place) {
    held.earlier_place.reset();
    return errors;
  }
  held.place.reset();
  if (held.whole) --entry(*held.whole).unsettled;
  send_settled();
  return errors;
}

void SessionOutput::send_settled() {
  constexpr std::size_t kFew = 4;  // as with a client that waits for each reply; more would hold more memory
  while (!held_.empty()) {
    const Held& next = held_.front();
    if (next.place || next.unsettled != 0 || under_way_ == sent_) return;
    for (std::size_t left = 1 + next.members; left != 0; --left) {
      Held& first = held_.front();
      const bool is_apart = apart_ == sent_;
      if (is_apart) apart_.reset();
      if (held_.size() > 1 && !are_sums_old_ && !is_apart) sums_.subtract(first);
      sendable_.append(std::move(first.bytes));
      if (first.parts.capacity() <= kFew) {
        first.parts.clear();
        spare_parts_ = std::move(first.parts);
      }
      held_.pop_front();
      ++sent_;
    }
  }
}

void SessionOutput::replace_marked(Held& held, std::string_view error, proto::Protocol protocol) {
  if (held.parts.empty()) return;
  const std::size_t end = held.parts.back().end;
  const std::string bytes = held.bytes.to_string(end);
  held.bytes.consume(end);
  proto::OutputBuffer rest = std::exchange(held.bytes, {});
  std::size_t at = 0;
  for (const Held::Part part : held.parts) {
    held.bytes.append(std::string_view(bytes).substr(at, part.begin - at));
    proto::ReplyWriter(held.bytes, protocol).error(error);
    at = part.end;
  }
  held.bytes.append(std::move(rest));
  held.parts.clear();
}

proto::OutputBuffer SessionOutput::take_all() {
  take_back_early();
  proto::OutputBuffer all = std::move(sendable_);
  for (Held& held : held_) {
    if (held.place) queue_.withdraw(*held.place);
    if (held.earlier_place) queue_.withdraw(*held.earlier_place);
    all.append(std::move(held.bytes));
  }
  held_.clear();
  sums_ = {};
  apart_.reset();
  under_way_.reset();
  messages_follow_reply_ = 0;
  return all;
}

}  // namespace locksley::daemon
