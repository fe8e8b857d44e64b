// How a command becomes a batch, and how failed jobs are queued again.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/config.h"
#include "core/base/index_range.h"
#include "core/batch/batch_failures.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/accounts/customer_name.h"
#include "daemon/server/accounts/customers.h"
#include "daemon/server/batches/changes/batch_changes.h"
#include "daemon/server/batches/changes/dependencies.h"
#include "daemon/server/batches/changes/streams.h"
#include "daemon/server/batches/events/events.h"
#include "daemon/server/batches/handlers/handler_batches.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/batches/intake/admission.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/restored_batches.h"
#include "daemon/server/batches/stored/stored_batches.h"
#include "daemon/server/payloads/digest.h"
#include "daemon/server/payloads/pattern.h"
#include "daemon/server/records/batch_id.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/read/reader.h"
#include "proto/argument_list.h"
#include "proto/submit_options.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class DueTimer;
class RestoredTimes;
class Store;
struct StoredBatch;
struct ReadFailures;

// The options of a RETRY.
struct RetryDemand {
  std::optional<std::uint64_t> round = {};  // only if BatchStatus::retry_rounds is this
  // Only these jobs, which must have failed; empty: all that have failed.
  std::span<const std::uint64_t> indexes = {};
};

// Makes a batch, or more jobs of one, out of a command, whole or not at all.
//
// Its steps: find the handler and the customer; answer a repetition of a known id with the existing
// batch; reserve (Admission); resolve the start condition; make the record; commit the reservation;
// enter the record into the registry, and into the store or the lane. Each step before the record
// may refuse, and leaves no trace.
//
// Owned by Batches. The I/O thread only. Nothing blocks, but for the look-up of an id whose batch
// is over and no longer in memory. A refusal is the text of the error reply.
class Intake {
 public:
  struct Parts {
    const config::Config& config;
    HandlerDirectory& handlers;
    ServerStats& stats;
    Store* store;  // null: there is none
    BatchObserver& observer;
    Registry& registry;
    Events& events;
    Retention& retention;
    StoredBatches& stored;
    RestoredBatches& restored;
    BatchChanges& changes;
    Streams& streams;
    Dependencies& dependencies;
    RestoredTimes& times;
    HandlerBatches& handler_batches;
    BatchNews& news;
    DueTimer& timer;
    Admission& admission;
    asio::io_context& io;
    Slices& slices;
    Reader& aside;  // does what takes long
    std::shared_ptr<spdlog::logger> log;
  };
  using Refusal = std::string;
  using Count = std::expected<std::uint64_t, Refusal>;  // of jobs
  using Accepted = std::expected<std::shared_ptr<BatchRecord>, Refusal>;

  explicit Intake(Parts parts) : parts_(std::move(parts)) {}
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // Values that the caller has computed in parts, because computing them at once would take long.
  struct Prepared {
    std::optional<Digest> digest;    // of the payloads
    std::optional<Pattern> pattern;  // of a range
    FoundDependencies dependencies;
  };
  // SUBMIT and RUN, by `origin`. The batch belongs to the user `by`. `arguments` is the whole
  // command; the payloads stay in it, and after a refusal the caller still has them. A repetition,
  // with the same id, handler and jobs, returns the existing batch, and starts nothing. The batch
  // of a RUN has no id, and is forgotten as soon as its RUN drops it. `prepared`: null if nothing
  // was prepared before.
  Accepted submit(const User& by, const proto::SubmitCommand& command, proto::ArgumentList&& arguments,
                  BatchRecord::Origin origin, const Prepared* prepared = nullptr)
      LOCKSLEY_REQUIRES(kIoThread);
  // `connection` streams the batch in. A repetition, with the same id and handler, returns the
  // existing batch, if it is open and has no jobs yet. `found_dependencies`: null if they were not
  // looked up before.
  Accepted open(const User& by, const proto::OpenCommand& command, std::uint64_t connection,
                const FoundDependencies* found_dependencies = nullptr) LOCKSLEY_REQUIRES(kIoThread);
  // Returns how many jobs the batch has now. `payer`, here and below: the account of the user who
  // sent the command, which is charged for its writes. `connection` takes over the stream. `at`:
  // adds only if the batch has this many jobs. If the batch already has all `at` + payloads.size()
  // jobs, the call is a repetition: it adds nothing and succeeds. None: adds in any case.
  Count add(BatchRecord& record, Account& payer, proto::ArgumentList payloads, std::uint64_t connection,
            std::optional<std::uint64_t> at = {}) LOCKSLEY_REQUIRES(kIoThread);
  // Queues all its failed jobs again, or those that `demand` names; returns how many. A batch that
  // was over goes on. Returns 0 if it was cancelled, if another retry of it is under way
  // (BatchRecord::is_requeueing()), or if `demand` has a round other than its
  // BatchStatus::retry_rounds. `failures`: the failed jobs, if the record lacks their list
  // (must_read_failures()); if null, or of another round, the call returns 0. Very many scattered
  // failures are queued again by another thread and in slices: BatchRecord::is_requeueing() is true
  // until then. Afterwards record.stored.ticket covers the retry.
  Count retry(BatchRecord& record, Account& payer, const RetryDemand& demand = {},
              const ReadFailures* failures = nullptr) LOCKSLEY_REQUIRES(kIoThread);
  // Calls `then` once BatchRecord::is_requeueing() is false: within this call if it is now, else in
  // a slice of its own. By then another RETRY may have begun.
  void after_requeue(BatchRecord& record, std::function<void()> then) LOCKSLEY_REQUIRES(kIoThread);
  // Whether the record lacks the list of its failed jobs, and `failures` is null or of another
  // round.
  static bool must_read_failures(BatchRecord& record, const ReadFailures* failures);
  // Takes over an unfinished batch that an earlier process accepted. Does not ask Admission.
  void restore(StoredBatch stored) LOCKSLEY_REQUIRES(kIoThread);

 private:
  // retry() of a batch that has the list of its failed jobs. No indexes: all of them.
  Count retry_listed(BatchRecord& record, Account& payer, std::span<const std::uint64_t> indexes)
      LOCKSLEY_REQUIRES(kIoThread);
  Count retry_some(BatchRecord& record, Account& payer, std::span<const std::uint64_t> indexes)
      LOCKSLEY_REQUIRES(kIoThread);
  Count queue_again(BatchRecord& record, Account& payer, Batch::Failures::Requeue requeue)
      LOCKSLEY_REQUIRES(kIoThread);
  // Counts the refusal.
  std::unexpected<Refusal> refuse(const std::string& handler, Refusal why);
  // The connection streams the batch in from now on.
  void take_over(BatchRecord& record, std::uint64_t connection) LOCKSLEY_REQUIRES(kIoThread);
  // Returns the batch, if the command `origin` repeats the command that made it; otherwise the
  // error is an EXISTS that names the difference.
  Accepted existing(BatchRecord& record, const std::string& handler, BatchRecord::Origin origin,
                    bool has_same_jobs);
  // The first step of SUBMIT, RUN and OPEN: looks up the names.
  struct Found {
    // Null: no handler has this name now; then `known` is not null.
    const HandlerDirectory::Entry* entry;
    CustomerName customer;
    BatchRecord* known;  // the batch of this id, which the client has submitted before; null: there is none
  };
  std::expected<Found, Refusal> find(const User& by, const std::string& handler,
                                     const proto::BatchOptions& options) LOCKSLEY_REQUIRES(kIoThread);
  // The same if no handler has this name; `why` is the error for that. A handler may have had the
  // name when the batch was accepted, and the reply may have been lost.
  std::expected<Found, Refusal> repeated(const User& by, const std::string& handler,
                                         const proto::BatchOptions& options, const Refusal& why)
      LOCKSLEY_REQUIRES(kIoThread);
  // The second step, for a batch that is new.
  struct Admitted {
    Admission::Reservation reservation;
    StartCondition condition;
  };
  std::expected<Admitted, Refusal> admit(const User& by, const std::string& handler,
                                         const proto::BatchOptions& options, const Admission::Demand& demand,
                                         const FoundDependencies* found) LOCKSLEY_REQUIRES(kIoThread);
  // What both SUBMIT and OPEN ask for; make_record() makes the record of it.
  struct NewBatch {
    const Customer& customer;
    const proto::BatchOptions& options;
    const HandlerDirectory::Entry& entry;
    BatchRecord::Origin origin;
    std::uint64_t sequence;
    bool is_stored;
  };
  std::shared_ptr<BatchRecord> make_record(const NewBatch& batch, std::unique_ptr<BatchPayloads> payloads,
                                           PayloadParts parts) LOCKSLEY_REQUIRES(kIoThread);
  std::unique_ptr<BatchPayloads> payloads_of(AcceptedJobs& accepted, proto::ArgumentList&& arguments,
                                             const NewBatch& batch, BatchPayloads::Place place);
  void enter(const std::shared_ptr<BatchRecord>& record, Account& payer, const proto::BatchOptions& options,
             Admitted&& admitted, AcceptedJobs&& accepted) LOCKSLEY_REQUIRES(kIoThread);
  // The second half of a retry of very many jobs: another thread queues them again in the record,
  // and then the I/O thread puts them into the ring, in slices.
  void requeue_aside(const std::shared_ptr<BatchRecord>& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread);
  void put_into_ring(const std::shared_ptr<BatchRecord>& record, Account& payer, std::vector<IndexRange> jobs)
      LOCKSLEY_REQUIRES(kIoThread);
  void requeue_ended(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  std::string new_id(const Tenant& tenant) LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  BatchIds ids_ LOCKSLEY_GUARDED_BY(kIoThread);
  // The functions that after_requeue() has yet to call. The requeue holds the record.
  std::unordered_map<const BatchRecord*, std::vector<std::function<void()>>> after_requeues_
      LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
