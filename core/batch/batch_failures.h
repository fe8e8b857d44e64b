// The jobs of a batch that have failed for good, and how they are queued again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/index_range.h"
#include "core/batch/batch.h"

namespace locksley {

// The list of the jobs that have failed for good, and the two halves of a command that queues them
// again.
//
// A handle of a batch, which outlives it. Any thread may ask; one thread at a time may queue again.
// Calls take the batch's mutex, for some milliseconds at most. Only requeue() may take longer: its
// time grows with the number of failed ranges, and it pauses between them. Nothing fails.
class Batch::Failures {
 public:
  // ---- Which jobs these are ----

  // Ascending, with those that are being queued again. One range that covers them all if the ranges
  // are very many (sorting them would take milliseconds), or if the batch lacks_list().
  std::vector<IndexRange> jobs() const;
  // Whether the job has failed for good. None if the list of failed jobs is not loaded, or is too
  // long to search.
  std::optional<bool> has(std::uint64_t index) const;
  // What the batch has charged to its account of failures.
  std::uint64_t charged_bytes() const;

  // ---- A list that was left out ----

  // Whether the batch was restored without the list of its failed jobs
  // (BatchHistory::failed_unread). Then begin_requeue() queues no job before set_list() has brought
  // the list.
  bool lacks_list() const;
  // Disjoint ranges in any order, and the number of their jobs. False, without effect: another
  // number of jobs has failed, or the list is there already.
  bool set_list(std::shared_ptr<const std::vector<IndexRange>> ranges, std::uint64_t jobs);
  // Undoes set_list(). Needs: it has returned true, and no requeue has begun since. Drops a
  // reference to the ranges: the caller has another one.
  void leave_out_list();

  // ---- Failed jobs are queued again, in two halves. One thread at a time ----

  // The first half, for all failed jobs: from now on they count as queued, and a batch that was
  // over is not over any more. Returns how many jobs these are, and in how many ranges. O(1).
  // Returns 0 jobs, and does nothing, if no job has failed, if the batch lacks_list() or was
  // cancelled, or if another requeue has begun. A batch that was over when it was restored counts
  // in its accounts from now on.
  struct Requeue {
    std::uint64_t jobs = 0;
    std::size_t ranges = 0;
  };
  Requeue begin_requeue();
  // The same for some of the failed jobs, ascending and disjoint. Needs: check_requeue() allows it,
  // and no other thread begins a requeue. O(ranges of failed jobs).
  Requeue begin_requeue(std::span<const IndexRange> some);
  // The second half: records that the jobs are queued, and returns them, ascending. The caller puts
  // them into the ring, which the batch may have left. Holds the mutex for short times only. Empty
  // if no requeue has begun.
  std::vector<IndexRange> requeue();
  // Whether begin_requeue() can queue these jobs again.
  struct RequeueCheck {
    // kTooScattered: the failed jobs, or those that were queued again one by one, lie in too many
    // ranges (kMostScattered, kMostSuperseded).
    enum class Answer : std::uint8_t { kYes, kNotFailed, kTooScattered } answer = Answer::kYes;
    std::uint64_t job = 0;  // kNotFailed: the first of them
  };
  RequeueCheck check_requeue(std::span<const IndexRange> some) const;
  static constexpr std::size_t kMostScattered = 100'000;  // some 500 us; a few ms if most of them are wanted
  static constexpr std::size_t kMostSuperseded = 10'000;

 private:
  friend class Batch;
  explicit Failures(Batch& batch) : batch_(batch) {}

  // Whether begin_requeue() does anything.
  bool may_requeue() const LOCKSLEY_REQUIRES(batch_.mutex_);
  // A requeue has begun, so the batch is not over any more. Returns what begin_requeue() does.
  Requeue reopen() LOCKSLEY_REQUIRES(batch_.mutex_);
  // Two steps of requeue(), in this order: forgive(), then end_requeue(). forgive() marks the
  // failed attempts of `jobs` as forgiven, and lists the next attempts in `step`; it takes the
  // mutex for some 100 us at a time. kEnded: all jobs between the ranges have ended, so one range
  // may cover them, which is cheaper. kMayRun: jobs between the ranges may run, so their attempts
  // stay as they are.
  enum class Between : std::uint8_t { kEnded, kMayRun };
  void forgive(std::span<const IndexRange> jobs, Between between, BatchStep& step)
      LOCKSLEY_EXCLUDES(batch_.mutex_);
  // The jobs count as queued from now on, not as failed; records the step.
  void end_requeue(BatchStep step) LOCKSLEY_EXCLUDES(batch_.mutex_);

  Batch& batch_;
};

inline Batch::Failures Batch::failures() { return Failures(*this); }

}  // namespace locksley
