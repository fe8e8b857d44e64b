// A batch's progress, from the rows of its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/index_range.h"
#include "core/batch/batch_journal.h"
#include "core/batch/retries.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

// Adds up the rows of a batch's steps, one row after the other.
//
// A part of a BatchAssembly, or on the stack of merge_steps(); one thread. Memory: for each range
// of jobs that have ended, that have failed, or whose attempts are known; not for each step.
// Nothing blocks.
class StepReplay {
 public:
  // False if the step contradicts the steps before it. `number`: from the key of the row. The first
  // row may have any number, because it may stand for the steps before it; the others follow
  // without a gap.
  bool apply(std::uint64_t number, StepRow step);

  // How many steps the batch has recorded: the number of the next one.
  std::uint64_t steps() const { return steps_; }
  // The state after the last step: its counters, times and outcome. Its ranges are those of this
  // one step.
  const StepRow& last() const { return last_; }
  // The jobs that have ended, ascending; none if a job has ended twice, or is not below `jobs`.
  std::optional<std::vector<IndexRange>> ended(std::uint64_t jobs) const;
  // The jobs that have failed, ascending, and the attempts of the jobs that may run again.
  std::vector<IndexRange> failed() const;
  const SupersededList& superseded_jobs() const { return superseded_jobs_; }
  std::vector<JobAttempts> job_attempts() const { return attempts_.all(); }
  // The notes of jobs that may run again.
  std::vector<NotedJob> notes() const { return notes_.all(); }

  // One step, with the number of the last one, that says the same as all of them; none if they
  // contradict one another.
  std::optional<BatchStep> merged() const;

 private:
  // Disjoint ranges, neighbours merged now and then: so there are at most twice as many as needed.
  class Ranges {
   public:
    void add(IndexRange range);
    void set(std::vector<IndexRange> ranges);
    const std::vector<IndexRange>& all() const { return ranges_; }

   private:
    std::vector<IndexRange> ranges_;
    std::size_t merge_at_ = 1024;
  };

  bool requeue(const std::vector<IndexRange>& jobs, bool is_first);

  std::uint64_t steps_ = 0;
  StepRow last_;
  Ranges ended_;
  Ranges failed_;
  SupersededList superseded_jobs_;
  Retries attempts_{0};
  JobNotes notes_;
  bool has_attempts_ = false;  // attempts_ or notes_ may have entries
};

}  // namespace locksley::daemon
