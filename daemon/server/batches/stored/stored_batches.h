// Writes batches to the store: holds jobs back until the disk has them, and undoes refused writes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/pending_discards.h"
#include "daemon/server/batches/stored/store_refusals.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/write/ticket.h"
#include "proto/argument_list.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

class Account;
class Events;
class Store;
class WriteCharges;
struct ChangesRow;

using SharedPayloads = std::shared_ptr<const proto::ArgumentList>;

// The jobs with which a batch is accepted.
struct AcceptedJobs {
  std::uint64_t jobs = 0;
  bool open = false;                  // more may come
  const RangeJobs* range = nullptr;   // null: they came as payloads
  SharedPayloads payloads = nullptr;  // to be written to the store; null: there are none
  // Of the payloads, or of a pattern that lies apart, if the client chose the id.
  std::optional<Digest> digest = {};
  std::uint64_t unsettled_bytes = 0;  // of payloads that are in memory only until they are written
};

// Writes batches to the store: holds their jobs back until the disk has them, and undoes what the
// disk refuses. RestoredBatches reads their rows.
//
// Accepting has two halves. accept() and add() write; the record has its jobs at once, so that a
// STATUS after them in the same pipeline is right. The lane gets the jobs in settle_some(), when
// the disk has them. If the disk did not take them, both halves are undone. The record learns of a
// close() at once, too, and the lane in settle_some(). Every other change takes effect at once, and
// only the reply waits for its ticket (ticket_of_changes()). A reply that says which jobs a batch
// has waits for the ticket of these jobs (BatchRecord::stored.jobs_ticket).
//
// Owned by Batches. The I/O thread only, except expect(). The store may be null: then no batch is
// stored, and error() and the functions that take a stored batch must not be called. Nothing
// blocks.
class StoredBatches {
 public:
  struct Parts {
    Store* store;  // null: there is none
    WriteCharges& charges;
    PendingDiscards& discards;  // discard() adds to them
    Registry& registry;
    Retention& retention;
    Events& events;
    ServerStats& stats;
    std::function<void(BatchRecord&)> apply_news;  // BatchNews::apply()
  };
  explicit StoredBatches(Parts parts);
  ~StoredBatches();
  StoredBatches(const StoredBatches&) = delete;
  StoredBatches& operator=(const StoredBatches&) = delete;

  // ---- Writing ----

  // Why nothing can be accepted at the moment: the text of the error reply; empty if it can.
  std::string error() const LOCKSLEY_REQUIRES(kIoThread);
  // Why no jobs can be added to this batch at the moment, although others may be; likewise.
  std::string error_of(const BatchRecord& record) const LOCKSLEY_REQUIRES(kIoThread);
  // `payer`, here and below: the account that is charged for the write (WriteCharges). It is that
  // of the user who sent the command; if the daemon makes the change by itself, that of the batch's
  // owner.
  void accept(const std::shared_ptr<BatchRecord>& record, Account& payer, const proto::BatchOptions& options,
              AcceptedJobs accepted) LOCKSLEY_REQUIRES(kIoThread);
  // Jobs that the record has been given, and their payloads.
  void add(BatchRecord& record, Account& payer, IndexRange jobs, SharedPayloads payloads,
           std::uint64_t unsettled_bytes) LOCKSLEY_REQUIRES(kIoThread);
  void close(BatchRecord& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread);
  // Writes that results were discarded, and deletes those in `freed`. No reply waits for this
  // write, which goes with the next group.
  void discard(BatchRecord& record, IndexRange freed) LOCKSLEY_REQUIRES(kIoThread);
  // The ticket of the write after which the disk has the first `rows` results of the batch: from
  // then on a crash changes neither these rows nor their order. 0: the disk has them already, or
  // the batch is not stored, or the disk fails. This call may make the store write at once.
  Ticket ticket_of_rows(BatchRecord& record, std::uint64_t rows) LOCKSLEY_REQUIRES(kIoThread);
  // Writes the batch's terms and its state in the scheduler. No effect if the batch is not stored.
  // `ranges`: how many ranges of jobs the step has that was put before for the same command.
  void write_changes(BatchRecord& record, Account& payer, std::uint64_t ranges = 0)
      LOCKSLEY_REQUIRES(kIoThread);
  // Writes that this process has taken over the batch. kTrim: the store deletes the payloads of
  // jobs beyond those of the batch.
  enum class Payloads : std::uint8_t { kKeep, kTrim };
  void write_restored(BatchRecord& record, Payloads payloads) LOCKSLEY_REQUIRES(kIoThread);
  // The ticket for which a reply that reports the record's changes waits. If the disk has failed to
  // write the last changes, they are queued again: so a repeated command also fails until they are
  // on the disk.
  Ticket ticket_of_changes(BatchRecord& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread);

  // Payloads that the batch waits for have come from the store. No effect if the batch has left.
  void payloads_arrived(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread);

  // ---- Outcomes ----

  // Whether all writes up to this ticket are on the disk, or were refused, and settle_some() has
  // acted on that.
  bool is_settled(Ticket ticket) const LOCKSLEY_REQUIRES(kIoThread) { return ticket <= settled_; }
  Ticket settled() const LOCKSLEY_REQUIRES(kIoThread) { return settled_; }
  // Some jobs wait for the disk before they enter the ring.
  bool has_unsettled() const LOCKSLEY_REQUIRES(kIoThread) { return !unsettled_.empty(); }
  // This outcome will be passed to settle_some(). After a refusal no batch and no job is accepted
  // until settle_some() has undone the refused writes: otherwise jobs that are added now would get
  // the indexes of refused jobs.
  void expect(const Outcome& outcome) LOCKSLEY_REQUIRES(kStoreWriter);
  // Acts on the writes of this outcome, in their order, until about `until`: on a slow disk a group
  // may have very many. True: it has acted on all of them, and is_settled() is true for their
  // tickets. Needs: expect() was called with the outcome, and the outcomes before it are settled.
  bool settle_some(const Outcome& outcome, Instant until) LOCKSLEY_REQUIRES(kIoThread);

 private:
  // An item that waits for the store: jobs that will enter a ring, or a queue there that will be
  // closed.
  struct Unsettled {
    enum class Kind : std::uint8_t { kAccept, kAdd, kClose };
    Ticket ticket;
    Kind kind;
    std::shared_ptr<BatchRecord> record;
    IndexRange jobs{};
    bool open = false;
    std::uint64_t bytes = 0;          // charged to kUnsettledBytes
    std::uint64_t payload_bytes = 0;  // of jobs that were added

    // Its jobs, as zero or one range.
    std::span<const IndexRange> ranges() const { return {&jobs, jobs.empty() ? 0U : 1U}; }
  };
  void wait_for_disk(Unsettled item) LOCKSLEY_REQUIRES(kIoThread);
  // Puts a write whose outcome the store will report, and charges it to `payer`. Returns its
  // ticket.
  Ticket put(StoreWrite&& write, Account& payer) LOCKSLEY_REQUIRES(kIoThread);
  // The account of the batch's owner.
  Account& owner_of(BatchRecord& record) const LOCKSLEY_REQUIRES(kIoThread);
  class LaneWakes;
  // enter_accepted(): the disk has the item. undo_…(): the disk refused it, and its effects are
  // undone.
  void enter_accepted(const Unsettled& item, LaneWakes& wakes) LOCKSLEY_REQUIRES(kIoThread);
  void undo_accept(const Unsettled& item) LOCKSLEY_REQUIRES(kIoThread);
  void undo_add(const Unsettled& item) LOCKSLEY_REQUIRES(kIoThread);
  void drop_rejected(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  ChangesRow changes_of(const BatchRecord& record) const LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  std::deque<Unsettled> unsettled_ LOCKSLEY_GUARDED_BY(kIoThread);  // in the order of the tickets
  Ticket settled_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;
  StoreRefusals refusals_;
};

}  // namespace locksley::daemon
