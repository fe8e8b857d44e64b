// The record of one batch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/batch.h"
#include "core/lane/lane.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/base/time.h"
#include "daemon/server/payloads/batch_payloads.h"
#include "daemon/server/records/rate_meter.h"
#include "daemon/store/rows/payload_parts.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

class Slices;
class Wakeup;
struct Customer;
struct Tenant;

// A connection that waits for news of a batch. A member of the object that waits;
// BatchRecord::waiters refers to it.
struct BatchWaiter {
  Wakeup& wakeup;
  bool is_woken = false;  // woken, and has not checked the batch since
  std::size_t place = 0;  // among the waiters
};

// Another batch for which a batch waits (AFTER, AFTEROK).
struct Wait {
  std::uint64_t sequence;
  std::string id;
  bool only_if_ok;            // AFTEROK
  bool is_satisfied = false;  // it is over, and all its jobs were ok if that matters
};

// A batch as the daemon knows it: the scheduler's record, and the state of each part of the daemon
// that deals with batches. It derives from Batch so that the scheduler's notification leads here
// without a look-up by id.
//
// Owned by shared_ptr like every Batch; the registry holds one while the batch is known by its id.
// All members but the constant ones and `waiters.for_rows` belong to the I/O thread, although the
// batch itself is shared with workers.
// The members are grouped by the part that writes them; each group says whether it survives a
// restart.
class BatchRecord final : public Batch {
 public:
  // The command that made it; decides what may be done with it.
  enum class Origin : std::uint8_t { kSubmit, kOpen, kRun };

  BatchRecord(BatchOptions&& options, Handler& handler, std::unique_ptr<BatchPayloads> payloads,
              BatchObserver* observer, Lane& lane_in, Origin origin_in, std::uint64_t sequence_in = 0,
              std::unique_ptr<BatchJournal> journal = nullptr)
      : Batch(std::move(options), handler, std::move(payloads), observer, std::move(journal)),
        lane(&lane_in),
        origin(origin_in),
        sequence(sequence_in) {}

  BatchPayloads& payloads() const {
    // The constructor takes no other.
    return static_cast<BatchPayloads&>(Batch::payloads());
  }
  std::shared_ptr<BatchRecord> shared() { return std::static_pointer_cast<BatchRecord>(shared_from_this()); }
  // Whether it is in the store.
  bool is_stored() const { return journal() != nullptr; }

  // The lane that runs its jobs. HandlerBatches exchanges it when the handler moves to another
  // lane. Not persistent: a restart takes it from the handler.
  Lane* lane LOCKSLEY_GUARDED_BY(kIoThread);
  // Persistent: the row of a stored batch says whether it came by OPEN. A RUN is never stored.
  const Origin origin;
  // LIST orders by it, and the store knows the batch by it; grows with each accepted batch. 0: a
  // RUN for which nothing is ever due, and whose handler cannot be removed. Persistent.
  const std::uint64_t sequence;

  // A RUN for which nothing is due. Constant once a worker may have the batch. Not persistent.
  bool only_end_is_news = false;
  // The line of its user, in the ChangeQueue and among the Slices. Written by
  // BatchCharges::tenant_of(). Constant once a worker may have the batch. Not persistent.
  LineNumber line = kDaemonsLine;

  // The client's options in addition to core's BatchOptions, with later changes by commands.
  // Written by Intake and BatchChanges. Persistent: written with the batch, or with its changes.
  struct Terms {
    bool id_is_chosen = false;            // by the client, which may submit it again
    std::chrono::milliseconds retain{0};  // how long it stays after its end
    std::uint64_t jobs = 0;               // accepted; grows while it is streamed in
    bool is_closed = false;               // no more jobs will be added
    bool has_no_deadline = false;  // RETRY made it go on after its end, and its deadline no longer counts
    std::string stop_reason;       // of a batch that was cancelled
  } terms LOCKSLEY_GUARDED_BY(kIoThread);

  // The batches for which it waits. Written by Dependencies. Persistent: `all`, and which of them
  // are satisfied.
  struct Waits {
    std::vector<Wait> all;        // by sequence, each once; cleared when the batch is over
    std::size_t unsatisfied = 0;  // how many of these
    // Some of its AFTER or AFTEROK were not satisfied when it was accepted. So the store must learn
    // when all of them are.
    bool were_any = false;
  } waits LOCKSLEY_GUARDED_BY(kIoThread);

  // Its place in the store. Written by StoredBatches and Retention. Not persistent: it describes
  // the store.
  struct Stored {
    Ticket ticket = 0;  // of the last write about it; 0: there was none
    // The ticket of the last write with jobs of the batch: its acceptance, or an ADD. A reply that
    // reports jobs fails with this write: the store refuses jobs that follow refused jobs of their
    // batch, but may accept changes that follow them.
    Ticket jobs_ticket = 0;
    // The store refused jobs of the batch. Jobs that were put before that was known will be refused
    // as well, at the latest with this ticket. Until then no jobs are added.
    Ticket refused_until = 0;
    Ticket end_ticket = 0;            // once this is on the disk, its end is; 0: it is not over
    std::uint64_t text_bytes = 0;     // in the row of its acceptance (text_bytes() in store/rows)
    std::uint64_t payload_bytes = 0;  // of its payloads in the store
    std::uint64_t bytes = 0;          // of all that it has in the store, results included
    PayloadParts parts = PayloadParts::kUnknown;
    bool is_rejected = false;  // the store refused it: it leaves as soon as it is over
    bool has_changes = false;  // it may have a row of its changes
    // Once `rows_ticket` is on the disk, the first `rows` of its results are.
    Ticket rows_ticket = 0;
    std::uint64_t rows = 0;
  } stored LOCKSLEY_GUARDED_BY(kIoThread);

  // The charges to its customer and its user. Written by BatchCharges. Not persistent.
  struct Charged {
    Tenant* tenant = nullptr;         // by options().tenant, once the registry knows the batch
    Customer* customer = nullptr;     // by options().customer, while the batch is active
    std::uint64_t jobs = 0;           // that have not ended
    std::uint64_t memory_bytes = 0;   // of payloads, against limits.max_queued_bytes
    std::uint64_t payload_bytes = 0;  // in memory or not, against the user's quota
    std::uint64_t record_bytes = 0;   // of the record itself, against limits.max_record_bytes
    bool is_counted = false;          // among the tenant's active batches
  } charged LOCKSLEY_GUARDED_BY(kIoThread);
  // Place among the active batches of RUN. Written by ActiveRuns. Not persistent.
  std::size_t place_among_runs LOCKSLEY_GUARDED_BY(kIoThread) = 0;
  // The error reply to a RUN that was cancelled because of a limit; empty: it was not. Written by
  // ResultRelief. Not persistent.
  std::string refusal LOCKSLEY_GUARDED_BY(kIoThread);
  // How many RETRYs of very many jobs are on their way; while one puts its jobs into the ring,
  // another may begin. Written by Intake, which wakes the waiters for kReadRows once it is 0 again.
  // Not persistent.
  std::uint32_t requeues LOCKSLEY_GUARDED_BY(kIoThread) = 0;
  bool is_requeueing() const LOCKSLEY_REQUIRES(kIoThread) { return requeues != 0; }
  // The registry has not yet seen that it is over. Written by the Registry. Not persistent: it
  // follows from the state that the store has.
  bool is_active LOCKSLEY_GUARDED_BY(kIoThread) = true;
  // The batch is over, and its payloads were evicted for those of others: its failed jobs cannot
  // run again. Written by Retention. Not persistent: only batches that are in memory alone lose
  // payloads.
  bool has_lost_payloads LOCKSLEY_GUARDED_BY(kIoThread) = false;

  // When something is due; kNever: nothing is. Written by Registry::schedule(). Not persistent:
  // deadline and start are computed anew from the stored wall-clock times, the others begin again.
  struct DueAt {
    Instant deadline = kNever;
    Instant close = kNever;
    Instant start = kNever;
    Instant retry = kNever;
    Instant forget = kNever;
    Instant progress = kNever;
  } due LOCKSLEY_GUARDED_BY(kIoThread);

  // The connection that streams it in; 0: none, or it has gone. Its neighbours in the list of that
  // connection's open batches. Written by Streams. Not persistent.
  struct Streamed {
    std::uint64_t connection = 0;
    bool is_listed = false;
    BatchRecord* previous = nullptr;
    BatchRecord* next = nullptr;
  } streamed LOCKSLEY_GUARDED_BY(kIoThread);

  // The client that reads its results and discards them (RESULTS … DISCARD). Written by
  // ResultDiscards and Retention. Not persistent.
  struct Discarder {
    Instant seen = Instant::min();  // when it last asked, or was given a page
    bool has_all = false;           // it was given the last page then
    Instant returns = kNever;       // for Retention: the batch's instant in its Returns; kNever: it has none
  } discarder LOCKSLEY_GUARDED_BY(kIoThread);

  // How fast its jobs end. Written by BatchNews. Not persistent.
  RateMeter rate LOCKSLEY_GUARDED_BY(kIoThread);

  // The events that its subscribers have got. Written by BatchNews and Events. Not persistent.
  struct Published {
    bool accepted = false;
    // The batch had started, or was over, before the store had it: publish that after its
    // acceptance.
    bool start_waits = false;
    bool end_waits = false;
    bool started = false;
    Instant progress{};
  } published LOCKSLEY_GUARDED_BY(kIoThread);

  // Connections that wait for it. Each adds and removes itself; BatchNews wakes them. Not
  // persistent.
  struct Waiter {
    BatchWaiter* who;
    std::uint64_t row;  // the row for which it waits, or kItsEnd, kReadRows or kLogBytes
  };
  // In place of a row: the end of the batch; the end of work that another thread does for the
  // client; news of the log of a job.
  static constexpr std::uint64_t kItsEnd = ~std::uint64_t{0};
  static constexpr std::uint64_t kReadRows = kItsEnd - 1;
  static constexpr std::uint64_t kLogBytes = kItsEnd - 2;
  // Wakes the connections that wait for this, unless they were woken and have not checked the batch
  // since: kWokenAtOnce of them within this call, the others in slices.
  void wake_readers(Slices& slices) LOCKSLEY_REQUIRES(kIoThread) { wake_all({kReadRows, kReadRows}, slices); }
  void wake_log_readers(Slices& slices) LOCKSLEY_REQUIRES(kIoThread) {
    wake_all({kLogBytes, kLogBytes}, slices);
  }
  // The same for connections that wait for one of the first `rows` rows; if the batch is over, for
  // all that wait.
  void wake_for_news(std::uint64_t rows, Slices& slices) LOCKSLEY_REQUIRES(kIoThread) {
    if (is_over()) return wake_all({0, kItsEnd}, slices);
    if (rows != 0) wake_all({0, rows - 1}, slices);
  }
  static constexpr std::size_t kWokenAtOnce = 64;  // guess: some 20 us, where the waiters are in no cache
  struct Waiters {
    std::vector<Waiter> all LOCKSLEY_GUARDED_BY(kIoThread);  // in no order
    // How many connections wait for rows that the batch does not have yet. A worker reads it after
    // it has published rows; a connection is counted before it checks for rows. So at least one of
    // the two sees the other.
    std::atomic<std::uint32_t> for_rows{0};
  } waiters;

 private:
  // The waiters with a Waiter::row from `first` to `last`, both included.
  struct WaitedFor {
    std::uint64_t first;
    std::uint64_t last;
  };
  void wake_all(WaitedFor what, Slices& slices) LOCKSLEY_REQUIRES(kIoThread);
  // Wakes kWokenAtOnce of the waiters that wait for `what`, among the first `left`. Returns how
  // many of the waiters are left.
  std::size_t wake_some(WaitedFor what, std::size_t left) LOCKSLEY_REQUIRES(kIoThread);
};

}  // namespace locksley::daemon
