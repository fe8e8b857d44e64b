// Where the steps of a batch are written down: the seam between the scheduler and whatever makes them outlive
// the process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/index_range.h"
#include "core/job.h"
#include "core/result_log.h"
#include "core/retries.h"

namespace locksley {

class Batch;

// How many jobs ended how.
struct EndedJobs {
  std::uint64_t by_status[kJobStatuses] = {};
  std::uint64_t total() const;
  std::uint64_t count(JobStatus status) const { return by_status[static_cast<std::size_t>(status)]; }
  // Neither ok nor cancelled.
  std::uint64_t failed() const { return total() - count(JobStatus::ok) - count(JobStatus::cancelled); }
};

// One step of a batch: jobs that ended, the rows that they left, and what the batch came to with them.
// Whoever has all steps up to one has the batch as it stood then, with no counter that disagrees with a
// result.
struct BatchStep {
  std::uint64_t number = 0;  // 0, 1, …
  // Disjoint; together with those of all other steps, too, but for what was queued again in between.
  std::vector<IndexRange> ended;
  std::vector<IndexRange> failed;    // of these; of the last step: all that have failed, of all steps
  std::vector<IndexRange> requeued;  // these had failed, and have not ended after all
  // It stands for all steps before it, and its number is 0: what was over goes on.
  bool is_base = false;
  std::vector<TriedJobs> tried;  // failed, and tried again: how often so far
  ResultLog::Slice rows;         // immutable; may be read by any thread for as long as it is held
  std::weak_ptr<Batch> batch;    // for Batch::drop_rows_before(), once the rows can be read from the journal
  // After this step:
  EndedJobs totals;
  std::uint64_t row_count = 0;     // of all steps so far
  std::uint64_t result_bytes = 0;  // of their rows
  std::int64_t started_at = 0;     // Unix milliseconds, 0 = not yet
  std::int64_t finished_at = 0;    // likewise; not 0: this is the last step
  bool cancelled = false;
  std::string stop_reason;       // of one that was cancelled
  std::uint64_t retried = 0;     // BatchStatus::retried
  std::uint64_t superseded = 0;  // BatchStatus::superseded
};

// The journal of one batch; owned by it. Steps come in the order of their numbers.
class BatchJournal {
 public:
  virtual ~BatchJournal() = default;

  // [any thread, under the batch's mutex] Takes note of a step. Must be quick, must not call the batch, and
  // does not fail: what becomes of a step that cannot be written is the journal's part.
  virtual void record(BatchStep step) = 0;
  // [a worker, without a lock] Steps are recorded faster than they can be written, perhaps: waits until there
  // is room for more.
  virtual void wait_for_room() = 0;
  // [any thread; may wait for a disk, but not for one that fails] Visits rows [first, first + max_rows), all
  // of them recorded, in order until `visit` returns false, which then has not consumed that row. Returns the
  // number of rows consumed. Throws std::runtime_error if they cannot be read.
  virtual std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                                  const std::function<bool(const ResultRow&)>& visit) = 0;
};

// What is known of a batch that an earlier process left.
struct BatchHistory {
  std::uint64_t jobs = 0;
  bool closed = false;
  bool cancelled = false;
  bool paused = false;
  std::string stop_reason;  // of one that was cancelled
  std::uint32_t weight = 1;
  std::uint32_t attempt = 1;  // the how manieth this process makes at what is left of it
  EndedJobs totals;
  std::uint64_t rows = 0;
  std::uint64_t result_bytes = 0;
  std::uint64_t steps = 0;
  std::uint64_t retried = 0;
  std::uint64_t superseded = 0;
  std::vector<IndexRange> failed;  // disjoint
  std::vector<TriedJobs> tried;    // a later one of the same job counts
  std::int64_t submitted_at = 0;
  std::int64_t started_at = 0;
  std::int64_t finished_at = 0;
};

}  // namespace locksley
