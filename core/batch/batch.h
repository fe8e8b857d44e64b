// A batch: an ordered set of jobs for one handler. Its counters, its state and its results are one
// record under one mutex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/job.h"
#include "core/base/result_account.h"
#include "core/batch/batch_journal.h"
#include "core/batch/failed_jobs.h"
#include "core/batch/next_attempts.h"
#include "core/batch/payload.h"
#include "core/batch/result_log.h"
#include "core/batch/superseded_rows.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_queue.h"
#include "core/sync/mutex.h"

namespace locksley {

class Batch;
class Handler;

// The names are those of the wire.
enum class BatchState : std::uint8_t { kOpen, kQueued, kRunning, kDone, kCancelled };
std::string_view to_string(BatchState state);

// Why no new jobs of a batch are started. A batch may have any number of these reasons at once.
enum class Hold : std::uint8_t {
  kCommand = 1,  // a command paused it
  kHandler = 2,  // its handler is not available
  kDelay = 4,    // its start is delayed
  kBatches = 8,  // it waits for other batches to end
};
using Holds = std::uint8_t;  // a set of Hold
constexpr bool has(Holds holds, Hold hold) { return (holds & static_cast<Holds>(hold)) != 0; }

// The fate of the running jobs of a batch that is stopped.
enum class RunningJobs : std::uint8_t {
  kStop,  // they are asked to stop, too
  kGoOn,  // they end as they would have ended
};

// Which outputs are kept.
enum class Keep : std::uint8_t { kAll, kFailures, kNone };

// The settings by the maker of a batch.
struct BatchOptions {
  std::string id;    // unique among live batches; the caller guarantees that
  std::string name;  // for people
  std::string tenant = "default";
  std::string customer = {};             // of the tenant; empty: the customer of batches that name none
  std::string queue_tenant = {};         // the tenant whose share of worker time it takes; empty: `tenant`
  std::string trace;                     // W3C traceparent, passed to handlers unchanged
  std::uint32_t weight = 1;              // relative to the tenant's other batches
  std::uint32_t slots = 0;               // most jobs at once, at first; 0: no limit
  std::uint64_t max_fails = 0;           // cancel the rest after this many failed jobs; 0: never
  std::chrono::milliseconds timeout{0};  // of a job; 0: none
  std::uint32_t retries = 0;             // of a failed job; the program calls Lane::retry_due()
  Keep keep = Keep::kAll;
  std::uint64_t max_output_bytes = 0;  // of a job; a longer output ends it as an error; 0: 4 GiB
  ResultAccount* results = nullptr;    // its results in memory are charged to this; null: not counted
  ResultAccount* failures = nullptr;   // the data about its failed jobs, likewise
  bool is_internal = false;            // the pool's own: views do not count it among the tenant's batches
  GateId gate = 0;                     // of its lane; Lane::hand_over() may change it
};

// A batch at one moment. jobs = queued + running + ok + failed + cancelled, always. `retried`
// counts the attempts after the first, by BatchOptions::retries or by a requeue (Batch::Failures).
struct BatchStatus {
  BatchState state;
  std::uint64_t jobs, queued, running, ok, failed, cancelled, retried;
  std::int64_t submitted_at, started_at, finished_at;  // Unix milliseconds, 0 = not yet
  std::uint32_t weight;
  std::uint32_t slots;             // most jobs at once; 0: no limit
  bool paused;                     // by a command
  Holds holds;                     // all reasons why it is held
  std::uint64_t rows;              // of results
  std::uint64_t discarded;         // rows below this one were discarded; the others can be read
  std::uint64_t result_bytes;      // of the chunks, or steps of the journal, in which a row is left
  std::uint64_t discarded_bytes;   // of the chunks or steps before these
  std::uint64_t steps;             // recorded in the journal
  SupersededRows superseded;       // rows of failed jobs that no longer count: the jobs run again
  std::uint64_t waiting;           // part of `queued`: jobs that failed and whose next attempt is not due
  Instant retry_at = kNever;       // when the first of these is due; kNever: none waits
  std::uint64_t retry_rounds = 0;  // how often Failures::begin_requeue() has queued jobs again
};

// Receives notifications of changes of batches. Implemented by the program; outlives the batches.
// Called on any thread, without the mutex of the batch. But two mutexes may be held: that of a
// worker's results (core/lane/result_writer.h), and that of Lane::hold(), release() and cancel(),
// which submit() takes for a batch that is held. So a call must not wait for an executor, nor call
// these functions. It must be quick and must not throw; it may read the batch.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  // The record has changed: one call for many jobs.
  virtual void batch_changed(const std::shared_ptr<Batch>& batch) = 0;
  // A handler threw an exception. `what` is the text that became the job's error.
  virtual void handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) = 0;
  // A job failed and will be retried. `output` would have been its result without retries.
  virtual void attempt_failed(const Batch& batch, std::uint64_t index, JobStatus status,
                              std::string_view output) = 0;
};

// The record of a batch, and the only place that counts its jobs.
//
// Owned by shared_ptr: the program has one, and the ring has one while the batch has jobs to run or
// running jobs. The last reference is never dropped under a lock. Every public call may be made
// from any thread, except where it says otherwise. Calls take the batch's mutex for a short time;
// under it they record steps in the journal. They notify the observer without it. Results may block
// on a disk and throw; Failures::requeue() pauses; publish() throws NoMemoryForRows. Nothing else
// blocks or fails.
//
// Members: one record under one mutex. What readers and commands need are handles (Results,
// Attempts, Failures); the rows, the failed jobs and the next attempts are classes of their own.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  // `handler` and `observer` outlive the batch. `observer` may be null; so may `journal`.
  Batch(BatchOptions options, Handler& handler, std::unique_ptr<PayloadSource> payloads,
        BatchObserver* observer = nullptr, std::unique_ptr<BatchJournal> journal = nullptr);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // ---- Constant after construction ----

  const BatchOptions& options() const { return options_; }
  const std::string& id() const { return options_.id; }
  Handler& handler() const { return handler_; }
  PayloadSource& payloads() const { return *payloads_; }
  // Null: the batch exists in memory only.
  BatchJournal* journal() const { return journal_.get(); }

  // ---- Its state ----

  // All numbers are of one moment. Takes the batch's mutex.
  BatchStatus status() const;
  // As in BatchStatus.
  std::int64_t submitted_at() const;
  // Whether every job has ended, and none can be added. One acquire load.
  bool is_over() const {
    // [batch-over] acquire: pairs with the release in announce_end(). A batch that is over does not
    // change, its results included, until Failures::begin_requeue().
    return over_.load(std::memory_order_acquire);
  }
  // Whether no further jobs of the batch start: it was cancelled, its deadline has passed, or it
  // had too many failures. One load, read between jobs.
  bool is_stopping() const {
    // [batch-stop] relaxed: a stale value only runs one job more; the mutex decides what has ended.
    return stopping_.load(std::memory_order_relaxed);
  }
  // Whether its running jobs should stop, too: as is_stopping(), but false after a deadline. One
  // load, read by jobs.
  bool is_aborting() const {
    // [batch-abort] relaxed: a stale value only lets a job run on until its next check.
    return aborting_.load(std::memory_order_relaxed);
  }

  // The reasons why no new jobs of it are started. One load, read between jobs; exact under the
  // mutex of Lane::hold().
  Holds holds() const {
    // [batch-hold] relaxed: a stale value only runs one job more; the ring starts no turn of a
    // paused queue.
    return holds_.load(std::memory_order_relaxed);
  }
  bool is_held() const { return holds() != 0; }

  // Whether its account of results is full: then no further jobs of the batch start. Some loads,
  // between bursts.
  bool is_at_result_limit() const { return options_.results != nullptr && options_.results->is_full(); }
  // Whether its account of failures is full: then only a few of its failed jobs are retried, and of
  // jobs that have failed for good only the indexes are kept.
  bool is_at_failure_limit() const { return options_.failures != nullptr && options_.failures->is_full(); }

  // Bytes held: payloads and results. A hint.
  std::uint64_t memory_bytes() const;
  // True for the first call after clear_changed(): so an observer queues a batch once for many
  // changes.
  bool set_changed() { return !changed_.exchange(true); }
  void clear_changed() { changed_.store(false); }

  // ---- Parts of the interface, each in a header of its own ----

  // Handles, as cheap as a reference, which the batch outlives.
  class Results;   // batch_results.h: the results, for readers
  class Attempts;  // batch_attempts.h: which attempt of a job is the next one, and the jobs' notes
  class Failures;  // batch_failures.h: the jobs that have failed for good, and how they are queued again
  Results results() const;
  Attempts attempts() const;
  Failures failures();

  // ---- Results that are not needed any more ----

  // Frees the chunks, at most `most_chunks`, whose rows all lie below `row`. The journal has these
  // rows, or they were discarded. False: there are more such chunks.
  bool drop_rows_before(std::uint64_t row, std::size_t most_chunks = ~std::size_t{0});
  // Makes the existing rows below `row` unreadable. `place`: where the chunk or step with `row`
  // begins; the rows before it no longer count in result_bytes. The jobs' statuses, and RETRY, do
  // not depend on rows. The caller then frees the rows: by drop_rows_before(), and in the journal's
  // store.
  void discard_rows_before(std::uint64_t row, const ResultLog::Place& place);
  // The batch is about to be destroyed: its results and the data about its failures no longer count
  // in their accounts, although another thread may take long to free a large batch. Without this
  // call they count until then. If failed jobs are queued again later, both count again.
  void refund_results();

  // ---- For the lane and its executors only (core/lane/lane.h, core/pool/worker.cc) ----

  RingQueue& ring_queue() { return ring_queue_; }
  const RingQueue& ring_queue() const { return ring_queue_; }

  // Sets the state that an earlier process left. Must be the first call. A batch that is not over
  // then has jobs left, or is open, or ends with the next close(). One that is over counts in no
  // account before failed jobs of it are queued again: it is a copy of what the journal's store
  // has, which may be dropped at any time.
  void restore(const BatchHistory& history);

  // Counts jobs that are being added, before they are added to the ring. Returns the index of the
  // first one, or none if the batch is closed.
  std::optional<std::uint64_t> jobs_added(std::uint64_t count);
  // The `count` jobs with the highest indexes leave the batch: they were not accepted, or another
  // process will run them. The ring does not have them. A closed batch without other jobs ends.
  void jobs_withdrawn(std::uint64_t count);
  // No more jobs will come. Ends the batch if all its jobs have ended.
  void close();
  void set_weight(std::uint32_t weight);
  void set_slots(std::uint32_t slots);
  // How its lane serves it now: as BatchOptions say, or as it was changed since; the gate by
  // Lane::hand_over().
  struct ServedAs {
    std::uint32_t weight;
    std::uint32_t slots;
    GateId gate;
  };
  ServedAs served_as() const;
  void set_gate(GateId gate);
  // Adds or removes a reason why the batch is held. A batch that waits for its start (kDelay,
  // kBatches) is not over before it could have started, even without jobs: so clear_hold() may end
  // it.
  void set_hold(Hold hold);
  void clear_hold(Hold hold);
  // Sets is_stopping(), and is_aborting() unless running jobs go on. `reason` becomes the output of
  // the jobs that never run; returns the number of these. A batch that is stopping already keeps
  // its reason: then the call returns 0, but may still stop the running jobs.
  std::uint64_t stop(std::string reason, RunningJobs running = RunningJobs::kStop);
  // Records that these jobs will never run. Takes the mutex, and makes a step, for each
  // kDroppedAtOnce ranges.
  void jobs_dropped(std::span<const IndexRange> ranges);
  static constexpr std::size_t kDroppedAtOnce = 512;  // some 20 us

  // Executors begin, or end, to run jobs of this batch, not only sub-jobs (core/lane/turn.h). The
  // first one starts it.
  void executor_joined(std::uint32_t executors = 1);
  void executor_left(std::uint32_t executors = 1);

  // Whether publish() needs the indexes of the jobs: for the journal, or to forget the attempts and
  // the notes of jobs that ended well. Once a job has attempts or a note to forget, it is true for
  // all later claims.
  bool needs_indexes() const {
    // [batch-retries] relaxed: as in Attempts::of().
    const bool has_retries = has_attempts_.counts.load(std::memory_order_relaxed);
    // [batch-notes] relaxed: as in Attempts::note().
    return journal_ != nullptr || has_retries || has_attempts_.notes.load(std::memory_order_relaxed);
  }
  // kNoRetries: failed jobs end, whatever retries they have left.
  enum class OnFailure : std::uint8_t { kRetry, kNoRetries };
  // Where and since when some jobs ran.
  struct Ran {
    std::string_view worker;  // empty: not known
    Nanoseconds began{};      // not later than the jobs
  };
  // Jobs that ended.
  struct Publishing {
    EndedJobs ended;   // how many with which status
    EncodedRows rows;  // those of jobs that were not ok even if Keep says that none is kept
    std::vector<IndexRange> indexes = {};  // if needs_indexes()
    OnFailure on_failure = OnFailure::kRetry;
    Ran ran = {};  // rows of failed jobs that have no facts get these, if the worker is known
  };
  // Records jobs that ended. Failed jobs that have retries left do not end: they wait for their
  // next attempt. Returns true if the number of failures has reached max_fails and the batch is not
  // yet cancelled: the caller then cancels the rest. Later publications, too, return true until
  // then. The notes in rows of failed jobs are kept for the next attempts. Throws NoMemoryForRows,
  // and then has recorded nothing.
  [[nodiscard]] bool publish(Publishing jobs);
  // Takes the jobs whose next attempt is due, at most `most` waiting ranges of them. The caller
  // puts them into the ring, or records that they never run.
  std::vector<IndexRange> take_due_retries(Nanoseconds now, std::size_t most = ~std::size_t{0});

  // Records a note of a running job for its next attempt, and gives it to the journal at once: the
  // caller limits how often. False: there is no room for it. The later publication of this job must
  // pass its index (ResultWriter::For::kExternal).
  bool set_note(std::uint64_t index, std::string_view text);
  void report_throw(std::uint64_t index, std::string_view what);

 private:
  // ---- Its state and its end (batch.cc) ----

  // True if the batch ends with this call: the caller then records the last step, and then
  // announces the end.
  bool finish_if_over() LOCKSLEY_REQUIRES(mutex_);
  void announce_end() LOCKSLEY_REQUIRES(mutex_);
  // finish_if_over(), record() and announce_end(), where no job ended: the end is a step of its
  // own.
  bool finish_and_record() LOCKSLEY_REQUIRES(mutex_);
  // Adds the state after the step to `step`, and records it in the journal.
  void record(BatchStep step, ResultLog::Rows rows) LOCKSLEY_REQUIRES(mutex_);
  // Puts all failed jobs into the last step.
  void list_failed(BatchStep& step) LOCKSLEY_REQUIRES(mutex_);
  // jobs_dropped() for at most kDroppedAtOnce ranges.
  void drop(std::span<const IndexRange> ranges) LOCKSLEY_EXCLUDES(mutex_);
  // Updates the charges to the accounts, if it counts in them, after a change of the memory of
  // results or failures.
  void charge_results() LOCKSLEY_REQUIRES(mutex_);
  // Bytes of memory that hold failures, attempts and notes, and the ranges that are queued.
  std::uint64_t failure_bytes() const LOCKSLEY_REQUIRES(mutex_);
  void notify_observer() LOCKSLEY_EXCLUDES(mutex_);

  // ---- Publications (batch_publish.cc) ----

  // publish(), split into jobs that ended and jobs that will be retried.
  struct Publication {
    EndedJobs ended;
    std::vector<IndexRange> indexes;        // of jobs that ended, if they are needed
    std::vector<IndexRange> failed;         // part of these
    std::vector<JobAttempts> job_attempts;  // of jobs that will be retried
    std::vector<NotedJob> notes = {};       // of failed jobs
  };
  // Returns and throws the same as publish().
  bool publish_locked(Publication publication, ResultLog::Prepared prepared) LOCKSLEY_REQUIRES(mutex_);
  // publish() for publications with at least one failed job.
  bool publish_failures(Publishing jobs) LOCKSLEY_EXCLUDES(mutex_);
  // Tells the observer of the failed attempts of the jobs `again`, which will be retried.
  void report_attempts(const EncodedRows& rows, std::span<const IndexRange> again) LOCKSLEY_EXCLUDES(mutex_);

  // ---- Members ----

  // Constant.
  const BatchOptions options_;
  Handler& handler_;
  const std::unique_ptr<PayloadSource> payloads_;
  BatchObserver* const observer_;
  const std::unique_ptr<BatchJournal> journal_;
  std::uint32_t attempt_ = 1;  // since restore()

  // Its own members say what guards them (core/ring/state/ring_lock.h).
  RingQueue ring_queue_;

  mutable Mutex mutex_;
  std::uint64_t jobs_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  EndedJobs ended_ LOCKSLEY_GUARDED_BY(mutex_);
  std::uint64_t steps_ LOCKSLEY_GUARDED_BY(mutex_) = 0;  // recorded in the journal
  bool closed_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  bool cancelled_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  ResultAccount::Charge result_charge_ LOCKSLEY_GUARDED_BY(mutex_);
  ResultAccount::Charge failure_charge_ LOCKSLEY_GUARDED_BY(mutex_);
  bool is_charged_ LOCKSLEY_GUARDED_BY(mutex_) = true;  // whether it counts in the accounts
  std::uint32_t weight_ LOCKSLEY_GUARDED_BY(mutex_);
  std::uint32_t slots_ LOCKSLEY_GUARDED_BY(mutex_);
  GateId gate_ LOCKSLEY_GUARDED_BY(mutex_) = options_.gate;
  std::string stop_reason_ LOCKSLEY_GUARDED_BY(mutex_);
  std::int64_t submitted_at_ LOCKSLEY_GUARDED_BY(mutex_);
  std::int64_t started_at_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::int64_t finished_at_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::uint64_t executors_ LOCKSLEY_GUARDED_BY(mutex_) = 0;  // that hold jobs: they have joined, and not left
  ResultLog log_ LOCKSLEY_GUARDED_BY(mutex_);
  // Jobs that are being queued again are still counted as failed in ended_.
  FailedJobs failed_ LOCKSLEY_GUARDED_BY(mutex_);
  bool was_over_ LOCKSLEY_GUARDED_BY(mutex_) = false;  // when the requeue began, if one has begun
  // As in BatchStatus, but without a requeue that has begun.
  std::uint64_t retried_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::uint64_t retry_rounds_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  HasAttempts has_attempts_;  // written under mutex_
  NextAttempts next_attempts_ LOCKSLEY_GUARDED_BY(mutex_){has_attempts_, options_.failures};

  // Written under mutex_, read by any thread: see the functions that read them.
  std::atomic<bool> over_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> aborting_{false};
  std::atomic<Holds> holds_{0};
  // Set by the thread that queues a notification, cleared by the one that takes it from the queue.
  std::atomic<bool> changed_{false};
};

}  // namespace locksley
