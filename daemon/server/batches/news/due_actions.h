// The actions when something is due for a batch.
#pragma once

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/due_queue.h"

namespace locksley::daemon {

class BatchChanges;
class BatchNews;
class Dependencies;
class Registry;
class Retention;

// Does what DueTimer finds due for a batch: its deadline, the closing of an abandoned stream, the
// end of its retention, a retry, the end of its delay, a progress event.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails.
class DueActions {
 public:
  struct Parts {
    Registry& registry;
    Retention& retention;
    BatchChanges& changes;
    const Dependencies& dependencies;
    BatchNews& news;
  };
  explicit DueActions(Parts parts) : parts_(parts) {}
  DueActions(const DueActions&) = delete;
  DueActions& operator=(const DueActions&) = delete;

  // Needs: the batch is no longer scheduled for it.
  void act_on(BatchRecord& record, Due due) const LOCKSLEY_REQUIRES(kIoThread);

 private:
  const Parts parts_;
};

}  // namespace locksley::daemon
