// A batch: an ordered set of jobs for one handler, with its counters, its state and its results in one
// record.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch_journal.h"
#include "core/fair_ring.h"
#include "core/job.h"
#include "core/payload.h"
#include "core/result_log.h"
#include "core/retries.h"

namespace locksley {

class Batch;
class Handler;

// The names are those of the wire.
enum class BatchState : std::uint8_t { open, queued, running, done, cancelled };
std::string_view to_string(BatchState state);

// Why no new jobs of a batch are started. A batch may have any number of these reasons at once.
enum class Hold : std::uint8_t {
  command = 1,  // it was paused
  handler = 2,  // what runs its jobs is not there
  delay = 4,    // it is to start later
  batches = 8,  // it waits for other batches to be over
};
using Holds = std::uint8_t;  // a set of these
constexpr bool has(Holds holds, Hold hold) { return (holds & static_cast<Holds>(hold)) != 0; }

// Which outputs are kept.
enum class Keep : std::uint8_t { all, failures, none };

struct BatchOptions {
  std::string id;    // unique among live batches; the caller sees to that
  std::string name;  // for people
  std::string tenant = "default";
  std::string trace;                     // W3C traceparent; handed to handlers as it is
  std::uint32_t weight = 1;              // share against the tenant's other batches
  std::uint32_t slots = 0;               // jobs at once at most; 0: no limit
  std::uint64_t max_fails = 0;           // cancel the rest after so many failed jobs; 0: never
  std::chrono::milliseconds timeout{0};  // of a job; 0: none
  std::uint32_t retries = 0;             // of a failed job, before its failure is its result
  Keep keep = Keep::all;
  bool is_internal = false;  // the pool's own: no view counts it among the tenant's batches
};

// The batch as it stood at one moment. jobs = queued + running + ok + failed + cancelled, always.
struct BatchStatus {
  BatchState state;
  std::uint64_t jobs, queued, running, ok, failed, cancelled, retried;
  std::int64_t submitted_at, started_at, finished_at;  // Unix milliseconds, 0 = not yet
  std::uint32_t weight;
  bool paused;                 // by a command
  Holds holds;                 // all that holds it
  std::uint64_t rows;          // results that can be read
  std::uint64_t result_bytes;  // of these
  std::uint64_t steps;         // told to its journal
  std::uint64_t superseded;    // of the rows below this one those of failed jobs do not count any more
  std::uint64_t waiting;       // of those queued: jobs that failed and are not yet due to be tried again
  Nanoseconds retry_at;        // when the first of them is due, steady clock; 0: none waits
};

// Told after the record of a batch changed: from any thread, once for many jobs, without the record's mutex
// (but a worker's results may be locked: core/result_writer.h). It must be quick and must not throw; it may
// read the batch.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  virtual void batch_changed(const std::shared_ptr<Batch>& batch) = 0;
  // A handler threw. `what` is the text that became the job's error.
  virtual void handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) = 0;
  // A job failed and will be tried again; `output` is what would have been its result.
  virtual void job_tried_in_vain(const Batch& batch, std::uint64_t index, JobStatus status,
                                 std::string_view output) = 0;
};

// Owned by shared_ptr: whoever looks it up by id holds one, and the ring holds one while there are jobs to
// run or running (the last of these drops it, never under a lock). Every public call may be made from any
// thread. Counters, results and state have one owner, this record under its mutex; no other place counts a
// batch's jobs.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  // `handler` and `observer` outlive the batch. `observer` and `journal` may be null.
  Batch(BatchOptions options, Handler& handler, std::unique_ptr<PayloadSource> payloads,
        BatchObserver* observer = nullptr, std::unique_ptr<BatchJournal> journal = nullptr);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Constant after construction.
  const BatchOptions& options() const { return options_; }
  const std::string& id() const { return options_.id; }
  Handler& handler() const { return handler_; }
  PayloadSource& payloads() const { return *payloads_; }
  // Null: it lives in memory alone.
  BatchJournal* journal() const { return journal_.get(); }

  BatchStatus status() const;
  // Every job ended and none can be added. One acquire load.
  bool is_over() const {
    // [batch-over] acquire: pairs with the release in finish_if_over(); what is over stays as it is, results
    // included, until somebody queues its failed jobs again.
    return over_.load(std::memory_order_acquire);
  }
  // Its jobs should stop: cancelled, past its deadline, or too many failures. One load, read between jobs.
  bool is_stopping() const {
    // [batch-stop] relaxed: a late look only runs a job more; what ended is decided under the mutex.
    return stopping_.load(std::memory_order_relaxed);
  }

  // No new jobs of it are started. One load, read between jobs.
  bool is_held() const {
    // [batch-hold] relaxed: a late look only runs a job more; the ring starts no turn of a paused queue.
    return holds_.load(std::memory_order_relaxed) != 0;
  }

  // Results, by place in the log: rows [first, first + max_rows) that are there, in the order of completion,
  // until `visit` returns false. Returns the number of rows consumed. Does not hold the mutex while visiting.
  // Rows that are not in memory are read from the journal: that may block, and throws what read_rows()
  // throws.
  std::uint64_t read_results(std::uint64_t first, std::uint64_t max_rows,
                             const std::function<bool(const ResultRow&)>& visit) const;

  // The same rows, where all of them are in memory, to be visited by ResultLog::visit() whatever becomes of
  // the batch; none if one must be read from the journal. Never blocks.
  std::optional<std::vector<ResultLog::Piece>> results_in_memory(std::uint64_t first,
                                                                 std::uint64_t max_rows) const;

  // Forgets the memory of rows below `row`, which the journal has; about, as whole chunks go.
  void drop_rows_before(std::uint64_t row);
  // The how manieth try at its jobs that have not ended this is, if they were tried before: 1 unless the
  // batch comes from an earlier process, which may or may not have begun any of them.
  std::uint32_t attempt() const { return attempt_; }
  // The same of one job that runs, with the tries that failed. A load, unless a job of the batch has been
  // tried again: then a lock and a look-up.
  std::uint32_t attempt(std::uint64_t index) const;
  // Which have failed for good, ascending.
  std::vector<IndexRange> failed_jobs() const;

  // Bytes held: payloads and results. A hint.
  std::uint64_t memory_bytes() const;

  // True when the caller is the first since the last clear_changed(): lets an observer queue a batch once for
  // many changes.
  bool set_changed() { return !changed_.exchange(true); }
  void clear_changed() { changed_.store(false); }

  // ---- For the lane and its executors only (core/lane.h, core/worker.cc) ----

  RingQueue& ring_queue() { return ring_queue_; }

  // Makes it what an earlier process left. Before anything else is done with it. What is not over has jobs
  // left, or is open, or ends with the next close().
  void restore(const BatchHistory& history);

  // Counts jobs that are being added; call before the ring hears of them. The index of the first, or none if
  // the batch takes no more.
  std::optional<std::uint64_t> jobs_added(std::uint64_t count);
  // No more will come. Ends the batch if nothing is left to do.
  void close();
  void set_weight(std::uint32_t weight);
  // The reason is there from now on, or no longer. What was to start later, or behind other batches, is not
  // over before it could have started, even if it has no jobs: so taking the last such reason away may end
  // it.
  void set_hold(Hold hold);
  void clear_hold(Hold hold);
  // From now on is_stopping(). `reason` becomes the output of the jobs that never run; returns how many those
  // are.
  std::uint64_t stop(std::string reason);
  // These jobs will never run.
  void jobs_dropped(std::span<const IndexRange> ranges);

  // An executor begins or ends to work on this batch's jobs.
  void executor_joined();
  void executor_left();

  // Results of jobs that ended, in the form of ResultHead; how many ended how; and, for the journal, which.
  // Where nothing is kept there are rows of those that were not ok nevertheless. Failed jobs that have
  // retries left do not end by it: they wait to be tried again. Returns true when this publication made the
  // number of failures reach max_fails: the caller then cancels the rest.
  [[nodiscard]] bool publish(const EndedJobs& ended, std::span<const std::byte> rows, std::uint64_t row_count,
                             std::vector<IndexRange> indexes);
  // Jobs whose next try is due: the caller puts them back into the ring, or records that they never run.
  std::vector<IndexRange> take_due_retries(Nanoseconds now);
  // All jobs that have failed have not ended after all; the caller puts them into the ring, which may have
  // let go of the batch. It is over no longer, if it was. None of a batch that was cancelled. By one thread
  // at a time.
  std::vector<IndexRange> requeue_failed();
  // The last `count` jobs, which the ring has not heard of, were not accepted after all.
  void jobs_withdrawn(std::uint64_t count);
  void report_throw(std::uint64_t index, std::string_view what);

 private:
  // [needs mutex_] True when the batch ends with this call: then its last step is to be recorded, and its end
  // announced.
  bool finish_if_over();
  void announce_end();
  // [needs mutex_] The same where no job ended: then that it is over is a step by itself.
  bool finish_and_record();
  // [needs mutex_] Tells the journal of a step; what is in `step` is its own, the rest is added.
  void record(BatchStep step, ResultLog::Slice rows);
  void tell();

  // batch_retry.cc
  // What a publication comes to.
  struct Publication {
    EndedJobs ended;
    std::vector<IndexRange> indexes;  // that ended, for the journal
    std::vector<IndexRange> failed;   // of these
    std::vector<TriedJobs> tried;     // that did not end, and will be tried again
  };
  // publish(), where some failed.
  bool publish_failures(const EndedJobs& ended, std::span<const std::byte> rows, std::uint64_t row_count,
                        std::vector<IndexRange> indexes);
  // [needs mutex_] Which of these wait to be tried again, ascending; the others have failed.
  std::vector<IndexRange> try_again(std::span<const IndexRange> failed, Publication& publication);
  // [needs mutex_] True as publish().
  bool publish_locked(Publication publication, ResultLog::Prepared prepared);
  // [needs mutex_]
  Retries& retries();

  const BatchOptions options_;
  Handler& handler_;
  const std::unique_ptr<PayloadSource> payloads_;
  BatchObserver* const observer_;
  const std::unique_ptr<BatchJournal> journal_;
  std::uint32_t attempt_ = 1;  // constant after restore()
  RingQueue ring_queue_;       // guarded by the ring's mutex

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::uint64_t jobs_ = 0;
  EndedJobs ended_;
  std::uint64_t steps_ = 0;  // told to the journal
  bool closed_ = false;
  bool cancelled_ = false;
  std::uint32_t weight_;
  std::string stop_reason_;
  std::int64_t submitted_at_;
  std::int64_t started_at_ = 0;
  std::int64_t finished_at_ = 0;
  std::uint64_t executors_ = 0;
  ResultLog log_;
  std::vector<IndexRange> failed_;  // jobs that ended so; disjoint
  std::uint64_t superseded_ = 0;    // BatchStatus::superseded
  std::uint64_t retried_ = 0;
  std::unique_ptr<Retries> retries_;  // null until a job is tried again

  // Written under mutex_, read by anyone.
  std::atomic<bool> over_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<Holds> holds_{0};
  std::atomic<bool> has_tries_{false};  // retries_ is there
  // Set by whoever queues a notification, cleared by whoever takes it.
  std::atomic<bool> changed_{false};
};

}  // namespace locksley
