// The deletions for whose write clients wait.
#pragma once

#include <set>

#include "daemon/base/loop/io_thread.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

// The deletions for which clients wait: FORGET and CUSTOMER DEL. A FORGET that finds nothing may be
// a repetition, and its reply says that the deletion is done. So it waits for the last deletion
// that is under way, and fails while the disk has not taken one of these.
//
// Owned by Batches. The I/O thread only. Nothing blocks. Only allocation fails. put() is O(log n),
// settled() O(groups with deletions that have their outcome now).
class AwaitedDeletions {
 public:
  // A deletion was put into the store. `ticket`: 0: the store has nothing to delete.
  void put(Ticket ticket) LOCKSLEY_REQUIRES(kIoThread) {
    if (ticket != 0) under_way_.insert(ticket);
  }
  void settled(const Outcome& outcome) LOCKSLEY_REQUIRES(kIoThread) {
    while (!under_way_.empty() && *under_way_.begin() <= outcome.up_to) {
      if (!outcome.error.empty()) failed_ = *under_way_.begin();
      under_way_.erase(under_way_.begin());
    }
  }
  // That of the last one which has no outcome yet; 0: there is none.
  Ticket last() const LOCKSLEY_REQUIRES(kIoThread) { return under_way_.empty() ? 0 : *under_way_.rbegin(); }
  // That of the last one which failed; 0: there was none. The disk may have it by now.
  Ticket failed() const LOCKSLEY_REQUIRES(kIoThread) { return failed_; }

 private:
  std::set<Ticket> under_way_ LOCKSLEY_GUARDED_BY(kIoThread);
  Ticket failed_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;
};

}  // namespace locksley::daemon
