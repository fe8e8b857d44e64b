#include "daemon/server/session/writes/write_waiters.h"

namespace locksley::daemon {

bool WriteWaiters::wait_unless_room(Waiter& waiter, const Account& account) {
  const bool has_room = has_room_to_write(account);
  if (has_room || waiter.account_ != &account) leave(waiter);
  if (has_room) return false;
  if (waiter.account_ == nullptr) {
    waiter.account_ = &account;
    waiter.place_ = ++last_place_;
  }
  waiter.is_called_ = false;
  queues_[&account].emplace(waiter.place_, &waiter);
  return true;
}

void WriteWaiters::leave(Waiter& waiter) {
  const Account* const account = std::exchange(waiter.account_, nullptr);
  if (account == nullptr) return;
  if (std::exchange(waiter.is_called_, false)) return wake_first(*account);
  const auto queue = queues_.find(account);
  queue->second.erase(waiter.place_);
  if (queue->second.empty()) queues_.erase(queue);
}

void WriteWaiters::store_advanced() {
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    const Account& account = *queue->first;
    ++queue;  // the one before may be erased
    wake_first(account);
  }
}

void WriteWaiters::wake_first(const Account& account) {
  const auto queue = queues_.find(&account);
  if (queue == queues_.end() || !has_room_to_write(account)) return;
  const auto first = queue->second.begin();
  Waiter& waiter = *first->second;
  queue->second.erase(first);
  if (queue->second.empty()) queues_.erase(queue);
  waiter.is_called_ = true;
  waiter.wake_();
}

}  // namespace locksley::daemon
