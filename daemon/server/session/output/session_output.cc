#include "daemon/server/session/output/session_output.h"

#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

std::size_t SessionOutput::size() const { return sendable_.size() + held_.bytes(); }

std::size_t SessionOutput::memory_bytes() const {
  // Includes the places in two queues that even a reply without bytes takes.
  std::size_t sum = sendable_.memory_bytes() + held_.memory_bytes() + held_.size() * kHeldBytes;
  if (muted_ != nullptr) sum += muted_->memory_bytes();
  return sum;
}

void SessionOutput::add(HeldSegment segment) {
  if (under_way_) whole_before_ += held_.last().bytes.size();
  held_.add(std::move(segment));
}

void SessionOutput::hold(Ticket ticket, Ticket earlier) {
  if (!held_.empty()) {
    const HeldSegment& last = held_.last();
    const bool is_full = last.marked.size() >= kMostMarked || last.bytes.size() >= kMostBytes;
    if (last.place && last.ticket == ticket && last.earlier == earlier && !is_full) return;
  }
  HeldSegment::Place earlier_place;
  if (earlier != 0) earlier_place = place_for(earlier);
  add({.ticket = ticket,
       .earlier = earlier,
       .place = place_for(ticket),
       .earlier_place = earlier_place,
       .marked = held_.take_spare(),
       .whole = under_way_});
  if (!under_way_) return;
  HeldSegment& whole = held_.at(*under_way_);
  ++whole.members;
  ++whole.unsettled;
}

HeldReplies::Place SessionOutput::place_for(Ticket ticket) {
  return queue_.hold(ticket,
                     [this, held = held_.next_number()](const std::string& error) { settled_(held, error); });
}

void SessionOutput::mark(std::size_t begin, std::size_t end) {
  if (begin != end) held_.last().marked.push_back({begin, end});
}

void SessionOutput::messages_follow() {
  check(!under_way_, "a message would come inside a whole reply");
  messages_follow_ = held_.next_number();
}

void SessionOutput::begin_whole() {
  check(!under_way_, "a whole reply in a whole reply");
  const HeldNumber number = held_.next_number();
  add({.ticket = 0, .earlier = 0, .place = {}, .earlier_place = {}, .is_whole = true});
  under_way_ = number;
  whole_before_ = 0;
}

void SessionOutput::end_whole() {
  const auto ended = std::exchange(under_way_, std::nullopt);
  if (!ended) return;
  if (held_.size() > 1 && *ended + 1 == held_.next_number()) {
    // The whole reply waits only for the replies before it.
    HeldSegment whole = held_.take_last();
    held_.last().bytes.append(std::move(whole.bytes));
  }
  send_settled();
}

std::size_t SessionOutput::whole_bytes() const {
  return under_way_ ? whole_before_ + held_.last().bytes.size() : 0;
}

void SessionOutput::offer_early(int socket) {
  if (held_.size() != 1 || !sendable_.empty() || queue_.size() > EarlyReplies::kMost) return;
  HeldSegment& only = held_.first();
  if (only.is_whole || only.earlier_place || only.early || only.bytes.empty()) return;
  only.early = queue_.early().offer(only.ticket, socket, only.bytes);
}

std::size_t SessionOutput::take_back_early() {
  if (held_.empty() || !held_.first().early) return 0;
  const std::size_t sent = queue_.early().take_back(*std::exchange(held_.first().early, std::nullopt));
  if (sent == 0) return 0;
  // The store has written what these replies report. Their unsent bytes go first, before messages
  // that arrived meanwhile.
  HeldSegment& first = held_.to_change(held_.first_number());
  first.bytes.consume(sent);
  first.bytes.append(std::move(sendable_));
  sendable_ = std::move(first.bytes);
  first.marked.clear();
  return sent;
}

std::size_t SessionOutput::release(HeldNumber number, std::string_view error, proto::Protocol protocol) {
  HeldSegment& held = held_.at(number);
  check(held.place.has_value(), "an outcome of the store for replies that wait for none");
  check(!held.early, "an outcome of the store before the writer gave the reply back");
  const std::size_t errors = error.empty() ? 0 : held.marked.size();
  if (errors != 0) held_.to_change(number).fail_marked(error, protocol);
  if (held.earlier_place) {
    held.earlier_place.reset();
    return errors;
  }
  held.place.reset();
  if (held.whole) --held_.at(*held.whole).unsettled;
  send_settled();
  return errors;
}

void SessionOutput::send_settled() {
  while (!held_.empty()) {
    const HeldSegment& next = held_.first();
    if (next.place || next.unsettled != 0 || under_way_ == held_.first_number()) return;
    for (std::size_t left = 1 + next.members; left != 0; --left) held_.send_first(sendable_);
  }
}

proto::OutputBuffer SessionOutput::take_all() {
  take_back_early();
  proto::OutputBuffer all = std::move(sendable_);
  while (!held_.empty()) {
    const HeldSegment& held = held_.first();
    if (held.place) queue_.withdraw(*held.place);
    if (held.earlier_place) queue_.withdraw(*held.earlier_place);
    held_.send_first(all);
  }
  under_way_.reset();
  messages_follow_ = 0;
  return all;
}

}  // namespace locksley::daemon
