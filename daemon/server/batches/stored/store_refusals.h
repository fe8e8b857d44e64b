// Whether a refusal of the store is yet to be undone.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/base/loop/io_thread.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

// Whether writes that the store has refused are yet to be undone. Until they are, no batch and no
// job is accepted: new jobs would get the indexes of refused jobs.
//
// A member of StoredBatches. Nothing blocks or fails.
class StoreRefusals {
 public:
  // The I/O thread will learn of a refusal. The store's thread calls it before the store can say
  // that it works again.
  void begin() LOCKSLEY_REQUIRES(kStoreWriter) { under_way_.fetch_add(1); }
  // The refused writes are undone. `last`: the last group put before this call whose jobs may
  // follow refused jobs, and will be refused, too; 0: there is none. A refusal of staged jobs
  // (StagedWrites) concerns their batch alone: for it, BatchRecord::Stored::refused_until has the
  // group.
  void end(Ticket last) LOCKSLEY_REQUIRES(kIoThread) {
    if (last != 0) until_ = last;
    under_way_.fetch_sub(1);
  }
  // `settled`: the last ticket whose outcome was acted on.
  bool are_any(Ticket settled) const LOCKSLEY_REQUIRES(kIoThread) {
    return under_way_.load() != 0 || settled < until_;
  }

 private:
  std::atomic<std::uint64_t> under_way_{0};  // between begin() and end()
  Ticket until_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;
};

}  // namespace locksley::daemon
