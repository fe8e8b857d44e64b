// Applies the changes of batches to the other parts, in a fixed order.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/base/loop/slices.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/batches/changes/dependencies.h"
#include "daemon/server/batches/changes/streams.h"
#include "daemon/server/batches/events/events.h"
#include "daemon/server/batches/news/change_queue.h"
#include "daemon/server/batches/news/due_timer.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/read/reader.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Store;

// Carries the news of batches from the workers to every part of the daemon that keeps an account of
// batches. Workers put a changed batch into the ChangeQueue; the I/O thread takes it out and
// applies its current state to the parts below. Applying a batch twice changes nothing the second
// time.
//
// The order of the effects for one batch; each effect relies on the previous ones:
//
//   1. The store's account: its bytes are updated. If the batch is over, the latest ticket of the
//      store is noted as that of its end, because its last step was put before its status changed.
//      From now on the batch may be evicted.
//   2. Subscribers: `started`, `done` and `cancelled` are published; `progress` is scheduled.
//      Before 3, so that an active batch is published, and a batch that was over before is not
//      published again.
//   3. The registry: the counts that limits and quotas use; a batch that is over leaves the active
//      batches.
//   4. If step 3 saw the batch end: counters, the batches that wait for it, its stream, its
//      payloads, the log line. Before 5, so that a client that learns of the end sees the dependent
//      batches start, and no memory charged. If the batch goes on: its next retry is scheduled, and
//      payloads of a stream that are no longer needed are freed.
//   5. Connections that wait for the batch are woken.
//   6. A batch that came from the queue, is over and has RETAIN 0 is forgotten, unless a connection
//      waits for it. Its end and its deletion are then usually in one group, and the store writes
//      neither. apply_pending() forgets nothing, because the running command may use the record;
//      the timer does it later.
//
// Very many changed batches are applied in slices. After each slice the timer is armed for what is
// due next, and the owner's `after_changes` evicts and retires batches and checks whether the
// daemon has nothing left to do.
//
// Owned by Batches. The I/O thread only, but for ChangeQueue::batch_changed(). Nothing blocks or
// fails.
class BatchNews {
 public:
  struct Parts {
    asio::io_context& io;
    Slices& slices;
    ChangeQueue& changes;
    Events& events;
    Registry& registry;
    Retention& retention;
    Streams& streams;
    Dependencies& dependencies;
    DueTimer& timer;
    Store* store;   // null: there is none
    Reader& aside;  // destroys what is large
    ServerStats& stats;
    std::shared_ptr<spdlog::logger> log;
    std::function<void()> after_changes;
  };
  explicit BatchNews(Parts parts);
  BatchNews(const BatchNews&) = delete;
  BatchNews& operator=(const BatchNews&) = delete;

  // Applies the state of one batch now instead of waiting for the queue.
  void apply(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) { apply(record, record.status()); }
  void apply(BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread) {
    apply(record, status, now());
  }
  // The status for a reply. Applies it first: a worker publishes the end of a job a moment before
  // it reports the change. So a client that has read the status can submit as many jobs as have
  // ended.
  BatchStatus shown_status(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  // As apply(), for the batches in the queue, for about a slice: before something is refused for
  // want of room. Forgets none.
  void apply_pending() LOCKSLEY_REQUIRES(kIoThread);
  // The queue has something. Called by the event loop after ChangeQueue has woken it: no command is
  // under way.
  void take_changes() LOCKSLEY_REQUIRES(kIoThread);

  // The time has come for a progress event.
  void publish_progress(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  void schedule_retry(BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread);

 private:
  void apply(BatchRecord& record, const BatchStatus& status, Instant at) LOCKSLEY_REQUIRES(kIoThread);
  // When a batch with RETAIN 0 is forgotten: with the news of its end, or by the timer.
  enum class Forget : std::uint8_t { kNow, kLater };
  // Applies the queue for about a slice at once, and the rest in slices.
  void apply_queued(Forget forget) LOCKSLEY_REQUIRES(kIoThread);
  // Takes batches out of the queue and applies them, until about `until`. True if none is left.
  bool apply_until(Instant until, Forget forget) LOCKSLEY_REQUIRES(kIoThread);
  void publish(BatchRecord& record, const BatchStatus& status, Instant at) LOCKSLEY_REQUIRES(kIoThread);
  void batch_ended(BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread);
  void release_payloads(BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread);
  void free_streamed_payloads(BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread);
  void log_end(const BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  SlicedWork applying_ LOCKSLEY_GUARDED_BY(kIoThread);  // apply_until()
  Timer changes_timer_ LOCKSLEY_GUARDED_BY(kIoThread);
  bool changes_timer_armed_ LOCKSLEY_GUARDED_BY(kIoThread) = false;
  // Two gates: many successful batches must not hide one that failed.
  RateGate done_lines_ LOCKSLEY_GUARDED_BY(kIoThread){std::chrono::milliseconds(100)};
  RateGate failed_lines_ LOCKSLEY_GUARDED_BY(kIoThread){std::chrono::seconds(1), 10};
};

}  // namespace locksley::daemon
