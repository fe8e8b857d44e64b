// The place of a connection among the waiters of a batch.
#pragma once

#include <cstdint>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/wakeup.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

// The place of a connection among the waiters of a batch (BatchRecord::waiters), from construction
// to destruction. Meanwhile BatchNews wakes the connection when the batch is over or has the row
// `row`, and the connection counts as blocked.
//
// A local variable of the coroutine that waits; batch, Wakeup and gauge outlive it. The I/O thread
// only. Constructor and destructor are O(1). Only allocation fails.
class WaiterPlace {
 public:
  WaiterPlace(Wakeup& wakeup, OwnedCounter& blocked, BatchRecord& record, std::uint64_t row)
      LOCKSLEY_REQUIRES(kIoThread);
  ~WaiterPlace();
  WaiterPlace(const WaiterPlace&) = delete;
  WaiterPlace& operator=(const WaiterPlace&) = delete;

  // The connection reads the state of the batch now: later changes wake it again.
  void rearm() { waiter_.is_woken = false; }

 private:
  BatchRecord& record_;
  OwnedCounter& blocked_;
  BatchWaiter waiter_;
};

}  // namespace locksley::daemon
