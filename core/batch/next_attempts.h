// What a batch knows about the next attempts of its jobs: how often each has failed, when it is due
// again, and the note that the last attempt left.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "core/base/result_account.h"
#include "core/batch/job_notes.h"
#include "core/batch/retries.h"

namespace locksley {

// Whether any job of the batch has failed attempts or a note, for readers without the batch's
// mutex. Set by NextAttempts, never reset. A job's own attempts and note are recorded before it is
// queued again, and the ring's mutex orders that before the next claim of it.
struct HasAttempts {
  std::atomic<bool> counts{false};  // some job was retried
  std::atomic<bool> notes{false};   // some job has made a note
};

// The failed attempts of the jobs that may run again, which of these jobs wait for their next
// attempt, and their notes. Decides what is not kept when the account of failures lacks room
// (core/batch/README.md, "Memory").
//
// A member of a batch, guarded by its mutex (Batch::next_attempts_). Takes hardly any memory until
// a job is retried or makes a note. Nothing blocks; only allocation can fail.
class NextAttempts {
 public:
  // `has`, and `failures`, the account in which the batch counts what is kept, outlive this. Null:
  // there is no limit.
  NextAttempts(HasAttempts& has, const ResultAccount* failures) : has_(has), failures_(failures) {}
  NextAttempts(const NextAttempts&) = delete;
  NextAttempts& operator=(const NextAttempts&) = delete;

  // What an earlier process left; as the first call. `earlier_failures`: as in BatchHistory.
  void restore(std::span<const JobAttempts> counts, std::span<const NotedJob> notes,
               std::uint32_t earlier_failures);

  // ---- Attempts ----

  // As Retries::of() and with_equal_attempts().
  AttemptCounts counts_of(std::uint64_t index) const;
  IndexRange with_equal_attempts(IndexRange jobs) const;

  // The next step for some jobs that failed.
  struct Judged {
    std::vector<IndexRange> again;   // they are scheduled for a further attempt; ascending
    std::vector<JobAttempts> next;   // the attempts of these
    std::vector<IndexRange> failed;  // they have no retries left, or there is no room to count
  };
  // Schedules those of the jobs that have failed fewer than `retries` times before. While the
  // account of failures is full, only as many ranges as kSpareBytes can count.
  Judged judge(std::span<const IndexRange> failed, std::uint32_t retries);
  // Whether any attempts are counted, so that forget_counts() may drop some.
  bool has_counts() const { return counts_ != nullptr; }
  // The jobs are queued again: the attempts that failed do not count against their retries any
  // more. Adds their next attempts to `next`.
  void forgive(IndexRange jobs, std::vector<JobAttempts>& next);
  // As Retries::take_due(), waiting() and next_due().
  std::vector<IndexRange> take_due(Nanoseconds now, std::size_t most);
  std::uint64_t waiting() const { return counts_ != nullptr ? counts_->waiting() : 0; }
  Instant next_due() const { return counts_ != nullptr ? counts_->next_due() : kNever; }

  // ---- Notes ----

  // The job's last note is `text`; empty: it has none. False: there is no room, and it has none.
  // Notes are hints, and leave half of the account of failures for the rest.
  bool set_note(std::uint64_t index, std::string_view text);
  // Null: the job has none. Valid until the next call of a function that is not const.
  const std::string* note(std::uint64_t index) const;
  // As JobNotes::leasable_together().
  IndexRange leasable_together(IndexRange jobs) const;
  bool has_notes() const { return notes_ != nullptr; }
  // The notes of all jobs, ascending by index. Needs: has_notes().
  std::vector<NotedJob> notes() const { return notes_->all(); }

  // ---- What is not needed any more ----

  // `ended` are jobs that have ended, and `failed` those of them that failed for good. Drops the
  // attempts and notes of the jobs that ended well. Those of failed jobs stay, since a command may
  // queue these jobs again; while the account of failures is full, they are dropped, too.
  void jobs_ended(std::span<const IndexRange> ended, std::span<const IndexRange> failed);
  // Drops the attempts of failed jobs. Their notes stay; jobs_ended() drops these, too, while the
  // account is full.
  void forget_counts(std::span<const IndexRange> failed);

  std::uint64_t memory_bytes() const;

  // How many bytes the counts of a batch may take while its account of failures is full, so that
  // the failures of one batch do not cost its user's other batches their retries. As much as the
  // smallest record of an unfinished batch, so that the limit of records bounds the sum; enough for
  // some 15 jobs that are not neighbours.
  static constexpr std::uint64_t kSpareBytes = 2 * 1024;

 private:
  bool is_full() const { return failures_ != nullptr && failures_->is_full(); }
  // For how many ranges of failed jobs there is room to count their attempts.
  std::size_t room() const;
  void forget(std::span<const IndexRange> jobs);
  Retries& make_counts();
  JobNotes& make_notes();

  HasAttempts& has_;
  const ResultAccount* const failures_;
  std::unique_ptr<Retries> counts_;  // null until a job is retried
  std::unique_ptr<JobNotes> notes_;  // null until a job makes a note
  std::uint32_t earlier_failures_ = 0;
};

}  // namespace locksley
