#include "daemon/server/session/write_lines.h"

namespace locksley::daemon {

bool WriteLines::must_wait(Waiter& waiter, const Account& account) {
  const bool has_room = has_room_to_write(account);
  if (has_room || waiter.account_ != &account) leave(waiter);
  if (has_room) return false;
  if (waiter.account_ == nullptr) {
    waiter.account_ = &account;
    waiter.place_ = ++last_place_;
  }
  waiter.is_called_ = false;
  lines_[&account].emplace(waiter.place_, &waiter);
  return true;
}

void WriteLines::leave(Waiter& waiter) {
  const Account* const account = std::exchange(waiter.account_, nullptr);
  if (account == nullptr) return;
  if (std::exchange(waiter.is_called_, false)) return wake_first(*account);
  const auto line = lines_.find(account);
  line->second.erase(waiter.place_);
  if (line->second.empty()) lines_.erase(line);
}

void WriteLines::store_advanced() {
  for (auto line = lines_.begin(); line != lines_.end();) {
    const Account& account = *line->first;
    ++line;  // the one before may be erased
    wake_first(account);
  }
}

void WriteLines::wake_first(const Account& account) {
  const auto line = lines_.find(&account);
  if (line == lines_.end() || !has_room_to_write(account)) return;
  const auto first = line->second.begin();
  Waiter& waiter = *first->second;
  line->second.erase(first);
  if (line->second.empty()) lines_.erase(line);
  waiter.is_called_ = true;
  waiter.wake_();
}

}  // namespace locksley::daemon
