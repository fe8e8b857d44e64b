// Whether a command must wait because its user has too much pending in the store.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/account.h"
#include "daemon/server/session/command_executor.h"
#include "daemon/server/session/output/session_output.h"
#include "daemon/server/session/writes/write_waiters.h"

namespace locksley::daemon {

// Decides whether a command of one connection must wait until its user has room to write
// (WriteCharges). Holds the command that was received and waits, and with it the connection's place
// among those of its user that wait (WriteWaiters).
//
// While there is no room, a command that adds to the store waits. A command that only changes a
// batch waits if a reply of the connection is held for the store: so a single change passes, and a
// pipeline of changes waits. Other commands pass.
//
// A member of a Session, which asks about one command at a time, and calls leave() when it ends.
// The I/O thread only. Nothing blocks or fails. It is asked before each command, and takes a few
// instructions while there is room.
class WriteGate {
 public:
  using Writes = CommandExecutor::Writes;

  // `waiters`: of all connections. `wake`: the connection calls wait_unless_room() again soon, or
  // leaves.
  WriteGate(WriteWaiters& waiters, std::function<void()> wake) : waiters_(waiters), place_(std::move(wake)) {}
  WriteGate(const WriteGate&) = delete;
  WriteGate& operator=(const WriteGate&) = delete;

  // wait_unless_room() is about another command from now on.
  void next_command() { writes_.reset(); }
  // If the command needs room and there is none, the connection gets its place, or keeps it, and is
  // woken when there may be room. Returns whether it waits. `account`, `output`: of the connection.
  // `find_writes()` returns what the command may write; it is called at most once for each command.
  template <class FindWrites>
  bool wait_unless_room(const Account& account, const SessionOutput& output, FindWrites find_writes)
      LOCKSLEY_REQUIRES(kIoThread) {
    if (!WriteWaiters::may_wait(place_, account)) return false;
    if (!writes_) writes_ = find_writes();
    const bool needs_room = writes_ == Writes::kMore || (writes_ == Writes::kChange && output.is_held());
    if (needs_room) return waiters_.wait_unless_room(place_, account);
    waiters_.leave(place_);
    return false;
  }
  // Whether the connection keeps the command, because it must wait, and reads no other one.
  void set_holding(bool is_holding) { is_holding_ = is_holding; }
  bool is_holding() const { return is_holding_; }
  // The command is given up, and the connection's place, if it has one.
  void leave() LOCKSLEY_REQUIRES(kIoThread) {
    is_holding_ = false;
    waiters_.leave(place_);
  }

 private:
  WriteWaiters& waiters_;
  WriteWaiters::Waiter place_;
  std::optional<Writes> writes_;  // of the command; none: not asked yet
  bool is_holding_ = false;
};

}  // namespace locksley::daemon
