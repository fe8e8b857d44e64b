// The jobs of a batch that have failed for good, and which of them are being queued again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/index_range.h"
#include "core/batch/superseded_rows.h"

namespace locksley {

// The list of these jobs, as disjoint ranges in the order in which the jobs failed. A command that
// queues some of them again (a requeue) takes them from the list when it begins; until it ends,
// they are kept apart.
//
// A member of a batch, guarded by its mutex (Batch::failed_). Nothing blocks; only allocation can
// fail. Calls are O(1), unless they say otherwise.
class FailedJobs {
 public:
  using Ranges = std::vector<IndexRange>;
  // Immutable. Where ranges may be very many, they are shared, so that no thread copies or frees
  // them under the mutex.
  using SharedRanges = std::shared_ptr<const Ranges>;

  // A requeue that has begun.
  struct Requeue {
    SharedRanges jobs;
    std::uint64_t count = 0;    // of these jobs
    bool are_all = false;       // no failed job stayed in the list
    SupersededRows superseded;  // what superseded() will be when it ends
  };

  // ---- What an earlier process left. One of these, as the first call ----

  // O(ranges).
  void restore(Ranges jobs, SupersededRows superseded);
  // `count` jobs have failed; set_list() brings their list later.
  void restore_unread(std::uint64_t count, SupersededRows superseded);

  // ---- The list ----

  // How many jobs have failed for good, without those that are being queued again.
  std::uint64_t count() const { return count_; }
  // The list is left out: list() lacks the jobs that count() counts.
  bool is_unread() const { return is_unread_; }
  std::span<const IndexRange> list() const { return shared_ != nullptr ? *shared_ : own_; }
  // The number of ranges, with those that are being queued again.
  std::size_t ranges() const { return list().size() + (requeue_ ? requeue_->jobs->size() : 0); }
  // All of them, ascending. O(ranges log ranges).
  Ranges all() const;
  // Whether the list has the job. O(ranges).
  bool has(std::uint64_t index) const;
  // The first of these jobs, which are ascending and disjoint, that is not in the list; none: all
  // are. O(ranges).
  std::optional<std::uint64_t> first_missing(std::span<const IndexRange> some) const;

  // O(ranges of `jobs`); copies the list if it is shared.
  void add(std::span<const IndexRange> jobs);
  // The list, for a reader that keeps it.
  SharedRanges share();
  // The list that was left out, in any order, and the number of its jobs. False, without effect:
  // another number of jobs has failed, or the list is there already.
  bool set_list(SharedRanges jobs, std::uint64_t count);
  // Undoes set_list(), and returns the list. Needs: nothing else has changed since.
  SharedRanges leave_out_list();

  // ---- Requeues, one at a time ----

  // Null: none has begun.
  const Requeue* requeue() const { return requeue_ ? &*requeue_ : nullptr; }
  std::uint64_t requeued() const { return requeue_ ? requeue_->count : 0; }
  // Begins one: of all jobs in the list; or of some of them, ascending and disjoint, which is
  // O(ranges). `row`: how many rows the log of results has. Needs: the list is there, and no other
  // requeue has begun.
  void begin_requeue(std::uint64_t row);
  void begin_requeue(std::span<const IndexRange> some, std::uint64_t row);
  // Returns how many jobs were queued again; 0 if no requeue has begun.
  std::uint64_t end_requeue();

  // The rows of failed jobs that no longer count, by the requeues that have ended.
  const SupersededRows& superseded() const { return superseded_; }

  std::size_t memory_bytes() const;

 private:
  // The list is in one of these two.
  Ranges own_;
  SharedRanges shared_;  // null: in own_

  std::uint64_t count_ = 0;
  bool is_unread_ = false;
  std::optional<Requeue> requeue_;
  SupersededRows superseded_;
};

}  // namespace locksley
