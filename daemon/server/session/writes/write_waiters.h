// Connections that wait because their user has too much pending in the store.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/account.h"
#include "daemon/server/batches/stored/write_charges.h"

namespace locksley::daemon {

// A queue of waiters for each user. When there is room to write (WriteCharges), the first waiter of
// the queue is woken. After its turn the next one is, as long as there is room. So a thousand
// connections of one user are not all woken for the room of one command.
//
// A member of Sessions. The I/O thread only. Nothing blocks.
class WriteWaiters {
 public:
  // The place of one connection; a member of it.
  class Waiter {
   public:
    // `wake`: the connection calls wait_unless_room() again soon, or leaves.
    explicit Waiter(std::function<void()> wake) : wake_(std::move(wake)) {}
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    friend class WriteWaiters;
    const std::function<void()> wake_;
    const Account* account_ = nullptr;  // null: it is not waiting
    std::uint64_t place_ = 0;           // the least is the first of its queue
    bool is_called_ = false;            // it was woken, and is not in the queue meanwhile
  };

  WriteWaiters() = default;
  WriteWaiters(const WriteWaiters&) = delete;
  WriteWaiters& operator=(const WriteWaiters&) = delete;

  // Whether wait_unless_room() could return true, or the waiter is in a queue: asked before each
  // command.
  static bool may_wait(const Waiter& waiter, const Account& account) {
    return waiter.account_ != nullptr || !has_room_to_write(account);
  }
  // If there is no room for a command of this account that writes, the waiter gets a place in the
  // queue, or keeps the one that it has. Returns whether it waits. O(1), and O(log waiters) if it
  // waits.
  bool wait_unless_room(Waiter& waiter, const Account& account) LOCKSLEY_REQUIRES(kIoThread);
  // The waiter no longer waits: it has room, or ends. If it was woken, wakes the next one.
  void leave(Waiter& waiter) LOCKSLEY_REQUIRES(kIoThread);
  // Some writes have had their outcome: wakes the first of each queue that has room now.
  void store_advanced() LOCKSLEY_REQUIRES(kIoThread);

 private:
  using Queue = std::map<std::uint64_t, Waiter*>;
  void wake_first(const Account& account) LOCKSLEY_REQUIRES(kIoThread);

  std::unordered_map<const Account*, Queue> queues_ LOCKSLEY_GUARDED_BY(kIoThread);  // none is empty
  std::uint64_t last_place_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;
};

}  // namespace locksley::daemon
