// The interface between a batch and a store that makes its steps outlive the process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "core/batch/job_notes.h"
#include "core/batch/result_log.h"
#include "core/batch/retries.h"
#include "core/batch/superseded_rows.h"

namespace locksley {

class Batch;

// Numbers of ended jobs, by status.
struct EndedJobs {
  std::uint64_t by_status[kJobStatuses] = {};
  std::uint64_t total() const;
  std::uint64_t count(JobStatus status) const { return by_status[static_cast<std::size_t>(status)]; }
  // Neither ok nor cancelled.
  std::uint64_t failed() const { return total() - count(JobStatus::kOk) - count(JobStatus::kCancelled); }
};

// One step of a batch: jobs that ended, the rows of their results, and the state of the batch after
// that. Steps 0 to n restore the batch as it was after step n; its counters agree with its results.
struct BatchStep {
  std::uint64_t number = 0;  // 0, 1, …
  // Disjoint; also disjoint from those of all other steps, except for jobs that were requeued
  // between.
  std::vector<IndexRange> ended;
  // The jobs of `ended` that failed. In the last step, and in one that is_base: all failed jobs of
  // all steps. But in the last step of a cancelled batch only those of this step, as its failed
  // jobs are never queued again.
  std::vector<IndexRange> failed;
  // Used instead of `failed` when the ranges are many; in any order.
  std::shared_ptr<const std::vector<IndexRange>> all_failed;
  // Jobs that had failed and are queued again.
  std::vector<IndexRange> requeued;
  // Replaces all steps before it, and has number 0: a batch that was over goes on.
  bool is_base = false;
  std::vector<JobAttempts> job_attempts;  // of jobs that failed and will be retried
  // SupersededRows::jobs, in a step that changes it, and in the last one; else empty.
  SupersededList superseded_jobs;
  // Notes that jobs have made since the last step. In the last step, and in one that is_base: all
  // notes of jobs that may run again.
  std::vector<NotedJob> notes;
  ResultLog::Rows rows;        // immutable; may be read by any thread for as long as it is held
  std::weak_ptr<Batch> batch;  // for Batch::drop_rows_before(), once the rows can be read from the journal
  // State after this step:
  EndedJobs totals;
  std::uint64_t row_count = 0;     // of all steps so far
  std::uint64_t result_bytes = 0;  // of their rows
  std::int64_t started_at = 0;     // Unix milliseconds, 0 = not yet
  std::int64_t finished_at = 0;    // the same; not 0: this is the last step
  bool cancelled = false;
  std::string stop_reason;         // of a cancelled batch
  std::uint64_t retried = 0;       // BatchStatus::retried
  std::uint64_t superseded = 0;    // SupersededRows::below
  std::uint64_t retry_rounds = 0;  // BatchStatus::retry_rounds
};

// The journal of one batch. Owned by the batch, and destroyed with it. The batch records its steps
// in the order of their numbers.
class BatchJournal {
 public:
  virtual ~BatchJournal() = default;

  // Accepts a step. Called on any thread, under the batch's mutex: it must be quick, and must not
  // call the batch. It cannot fail: the journal handles a step that cannot be written.
  virtual void record(BatchStep step) = 0;
  // Called on an executor's thread, without a lock. Blocks while more steps wait to be written than
  // the journal has room for. The batch is charged for the wait: so a journal that shares its room
  // with other batches should not make a batch wait only for their steps.
  virtual void wait_for_room() = 0;
  // Visits rows [first, first + max_rows), all of which were recorded, in order until `visit`
  // returns false; the row for which it does counts as not consumed. Returns the number of rows
  // consumed. Called on any thread. May wait for a disk, but not for the repair of one that fails:
  // it throws std::runtime_error if the rows cannot be read.
  virtual std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                                  const std::function<bool(const ResultRow&)>& visit) = 0;
  // Visits those of the recorded rows [first, end) that are not ok, each with its place, in order
  // until `visit` returns false. Returns the row before which all were visited. It may end early,
  // and then returns less than `end`, but more than `first`. As read_rows() otherwise. This
  // implementation reads at most kMostPassed rows.
  using VisitOther = std::function<bool(std::uint64_t place, const ResultRow&)>;
  static constexpr std::uint64_t kMostPassed = 10'000;
  virtual std::uint64_t read_others(std::uint64_t first, std::uint64_t end, const VisitOther& visit);
};

// The state of a batch that an earlier process left, for Batch::restore().
struct BatchHistory {
  std::uint64_t jobs = 0;
  bool closed = false;
  bool cancelled = false;
  bool paused = false;
  std::string stop_reason;  // of a cancelled batch
  std::uint32_t weight = 1;
  std::optional<std::uint32_t> slots = {};  // none: those of its options
  std::uint32_t attempt = 1;                // attempt number of the jobs that have not ended
  EndedJobs totals;
  std::uint64_t rows = 0;
  std::uint64_t result_bytes = 0;     // of all rows, discarded ones included
  std::uint64_t discarded = 0;        // rows below this one were discarded
  std::uint64_t discarded_bytes = 0;  // of these rows; at most result_bytes
  std::uint64_t steps = 0;
  std::uint64_t retried = 0;
  std::uint64_t superseded = 0;  // SupersededRows::below
  SupersededList superseded_jobs;
  std::uint64_t retry_rounds = 0;
  std::vector<IndexRange> failed;         // disjoint
  bool failed_unread = false;             // `failed` is left out; Batch::Failures::set_list() brings it later
  std::vector<JobAttempts> job_attempts;  // of jobs that may run again; disjoint
  // How often a failed job that is not in `job_attempts` may have failed before it failed for good.
  std::uint32_t earlier_failures = 0;
  std::vector<NotedJob> notes;  // of jobs that may run again
  std::int64_t submitted_at = 0;
  std::int64_t started_at = 0;
  std::int64_t finished_at = 0;
};

}  // namespace locksley
