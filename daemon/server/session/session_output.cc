#include "daemon/server/session/session_output.h"

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
  if (!held_.empty() && held_.back().ticket >= ticket) return;
  held_.push_back({ticket, queue_.hold(ticket, settled_), {}, {}});
}

void SessionOutput::mark(std::size_t begin, std::size_t end) {
  if (begin != end) held_.back().parts.push_back({begin, end});
}

std::size_t SessionOutput::release(std::string_view error, proto::Protocol protocol) {
  check(!held_.empty(), "an outcome of the store for a connection that waits for none");
  Held held = std::move(held_.front());
  held_.pop_front();
  if (error.empty()) {
    sendable_.append(std::move(held.bytes));
    return 0;
  }
  const std::string bytes = held.bytes.to_string();
  std::size_t at = 0;
  for (const Held::Part part : held.parts) {
    sendable_.append(std::string_view(bytes).substr(at, part.begin - at));
    proto::ReplyWriter(sendable_, protocol).error(error);
    at = part.end;
  }
  sendable_.append(std::string_view(bytes).substr(at));
  return held.parts.size();
}

void SessionOutput::clear() {
  for (const Held& held : held_) queue_.withdraw(held.place);
  held_.clear();
  sendable_.clear();
}

}  // namespace locksley::daemon
