// The deletions for which clients wait.
#pragma once

#include <set>

#include "daemon/base/loop/io_thread.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

// The deletions for which clients wait: FORGET and CUSTOMER DEL. A command that finds nothing to
// delete may be a repetition, and its reply confirms the earlier deletion. So it waits for the last
// deletion under way, and fails as long as the disk lacks one of them.
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
  // The ticket of the last deletion without an outcome; 0: there is none.
  Ticket last() const LOCKSLEY_REQUIRES(kIoThread) { return under_way_.empty() ? 0 : *under_way_.rbegin(); }
  // The ticket of the last deletion that failed; 0: there was none. The disk may have it by now.
  Ticket failed() const LOCKSLEY_REQUIRES(kIoThread) { return failed_; }

 private:
  std::set<Ticket> under_way_ LOCKSLEY_GUARDED_BY(kIoThread);
  Ticket failed_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;
};

}  // namespace locksley::daemon
