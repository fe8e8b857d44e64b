#include "daemon/server/session/session_output.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

std::size_t SessionOutput::size() const {
  std::size_t sum = sendable_.size();
  for (const Held& held : held_) sum += held.bytes.size();
  return sum;
}

std::size_t SessionOutput::memory_bytes() const {
  std::size_t sum = sendable_.memory_bytes();
  // Also what is held of a reply without bytes: its place in two queues.
  for (const Held& held : held_) sum += held.bytes.memory_bytes() + kHeldBytes;
  if (muted_ != nullptr) sum += muted_->memory_bytes();
  return sum;
}

void SessionOutput::hold(Ticket ticket) {
  if (!held_.empty() && !held_.back().is_whole() && held_.back().ticket >= ticket) return;
  if (!held_.empty()) ticket = std::max(ticket, held_.back().ticket);
  if (is_under_way_) ++unsettled_;
  held_.push_back({.ticket = ticket,
                   .place = queue_.hold(ticket, settled_),
                   .bytes = {},
                   .parts = std::exchange(spare_parts_, {})});
}

void SessionOutput::mark(std::size_t begin, std::size_t end) {
  if (begin != end) held_.back().parts.push_back({begin, end});
}

void SessionOutput::begin_whole() {
  check(!is_under_way_, "a whole reply in a whole reply");
  const Ticket before = held_.empty() ? Ticket{} : held_.back().ticket;
  held_.push_back({.ticket = before, .place = std::nullopt, .bytes = {}});
  is_under_way_ = true;
}

void SessionOutput::end_whole() {
  if (!std::exchange(is_under_way_, false)) return;
  const std::size_t index = held_.size() - 1 - unsettled_;
  held_[index].unsettled = std::exchange(unsettled_, 0);
  if (held_[index].unsettled == 0) send_whole(index);
}

std::size_t SessionOutput::whole_bytes() const {
  if (!is_under_way_) return 0;
  std::size_t sum = 0;
  for (std::size_t i = held_.size() - 1 - unsettled_; i < held_.size(); ++i) sum += held_[i].bytes.size();
  return sum;
}

void SessionOutput::send_whole(std::size_t index) {
  Held whole = std::move(held_[index]);
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  (index == 0 ? sendable_ : held_[index - 1].bytes).append(std::move(whole.bytes));
}

void SessionOutput::offer_early(int socket) {
  if (held_.size() != 1 || !sendable_.empty() || queue_.size() > EarlyReplies::kMost) return;
  Held& only = held_.front();
  if (only.is_whole() || only.early || only.bytes.empty()) return;
  only.early = queue_.early().offer(only.ticket, socket, only.bytes);
}

std::size_t SessionOutput::take_back_early() {
  if (held_.empty() || !held_.front().early) return 0;
  Held& first = held_.front();
  const std::size_t sent = queue_.early().take_back(*std::exchange(first.early, std::nullopt));
  if (sent == 0) return 0;
  // The store has written what these replies report. Their unsent bytes go first, before messages that arrived meanwhile.
  first.bytes.consume(sent);
  first.bytes.append(std::move(sendable_));
  sendable_ = std::move(first.bytes);
  first.parts.clear();
  return sent;
}

std::size_t SessionOutput::release(std::string_view error, proto::Protocol protocol) {
  const std::size_t index = !held_.empty() && held_.front().is_whole() ? 1 : 0;
  check(held_.size() > index, "an outcome of the store for a connection that waits for none");
  check(!held_[index].early, "an outcome of the store before the writer gave the reply back");
  const bool is_of_next = is_under_way_ && index + unsettled_ == held_.size();
  Held held = std::move(held_[index]);
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  proto::OutputBuffer& to = index == 0 ? sendable_ : held_.front().bytes;
  if (error.empty()) {
    to.append(std::move(held.bytes));
  } else {
    append_with_errors(to, held, error, protocol);
  }
  if (is_of_next && index == 1) {
    --unsettled_;
  } else if (index == 1 && --held_.front().unsettled == 0) {
    send_whole(0);
  }
  const std::size_t marked = held.parts.size();
  constexpr std::size_t kFew = 4;  // as with a client that waits for each reply; more would hold more memory
  if (held.parts.capacity() <= kFew) {
    held.parts.clear();
    spare_parts_ = std::move(held.parts);
  }
  return error.empty() ? 0 : marked;
}

void SessionOutput::append_with_errors(proto::OutputBuffer& to, const Held& held, std::string_view error,
                                       proto::Protocol protocol) {
  const std::string bytes = held.bytes.to_string();
  std::size_t at = 0;
  for (const Held::Part part : held.parts) {
    to.append(std::string_view(bytes).substr(at, part.begin - at));
    proto::ReplyWriter(to, protocol).error(error);
    at = part.end;
  }
  to.append(std::string_view(bytes).substr(at));
}

proto::OutputBuffer SessionOutput::take_all() {
  take_back_early();
  proto::OutputBuffer all = std::move(sendable_);
  for (Held& held : held_) {
    if (held.place) queue_.withdraw(*held.place);
    all.append(std::move(held.bytes));
  }
  held_.clear();
  is_under_way_ = false;
  unsettled_ = 0;
  return all;
}

}  // namespace locksley::daemon
