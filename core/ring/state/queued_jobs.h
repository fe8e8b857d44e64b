// Which jobs of a queue wait to be claimed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/index_range.h"

namespace locksley {

// A set of indexes: the tail, which is all from tail() to end(), and ranges below it that have gone
// back. The ranges are taken before the tail, and the range that came last before the others.
//
// A member of RingQueue, and guarded as it is. Nothing blocks; allocation may fail. O(1) unless it
// says otherwise.
class QueuedJobs {
 public:
  // The number of jobs.
  std::uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Where the tail begins. Its jobs were never taken, or have gone back and joined it.
  std::uint64_t tail() const { return tail_; }
  // The index after the highest that was ever added.
  std::uint64_t end() const { return end_; }
  // The memory of the ranges.
  std::uint64_t memory_bytes() const { return ranges_.capacity() * sizeof(IndexRange); }

  // The next n indexes.
  void append(std::uint64_t n) {
    end_ += n;
    size_ += n;
  }
  // Adds indexes that are new (end() or higher), or were added before and do not wait.
  void add(IndexRange range);
  // Lets indexes that were taken wait again. They join the tail if they end where it begins.
  void give_back(IndexRange range) {
    size_ += range.size();
    if (range.high == tail_) {
      tail_ = range.low;
    } else if (!ranges_.empty() && ranges_.back().low == range.high) {
      ranges_.back().low = range.low;
    } else {
      ranges_.push_back(range);
    }
  }
  // Takes at most `most` jobs with successive indexes; an empty range if none waits.
  IndexRange take(std::uint64_t most) {
    IndexRange taken;
    if (!ranges_.empty()) {
      IndexRange& last = ranges_.back();
      taken = {last.low, last.low + std::min(most, last.size())};
      last.low = taken.high;
      drop_empty();
    } else {
      taken = {tail_, tail_ + std::min(most, end_ - tail_)};
      tail_ = taken.high;
    }
    size_ -= taken.size();
    return taken;
  }

  // Very many ranges for queue_again(), in its form: made without the ring's mutex.
  class Prepared {
   public:
    // `ranges`: ascending and disjoint. `more`: about how many ranges later calls will bring.
    // O(ranges).
    Prepared(std::span<const IndexRange> ranges, std::size_t more);
    std::uint64_t jobs() const { return jobs_; }

   private:
    friend class QueuedJobs;
    std::vector<IndexRange> descending_;
    std::size_t more_;
    std::uint64_t jobs_ = 0;
  };
  // As give_back() of all these ranges, so that the lowest is taken first. O(1), or O(ranges) if
  // other ranges wait. Afterwards `prepared` has the memory that the caller frees without the
  // mutex.
  void queue_again(Prepared& prepared);

  // Takes the indexes of the tail from `from` on. They are as if they had never been added.
  IndexRange withdraw(std::uint64_t from);
  // Takes all, in no order. O(1), or O(ranges) if ranges were added since the last queue_again().
  std::vector<IndexRange> take_all();
  // Takes those that `wanted` has, of the tail and of the last `most` ranges. Ascending. O(most),
  // and O(n log n) in the ranges taken.
  std::vector<IndexRange> take_common(IndexRange wanted, std::size_t most);
  // The memory of the ranges, which the caller frees without the mutex. Needs: no job waits.
  std::vector<IndexRange> take_memory() { return std::exchange(ranges_, {}); }

  // Whether the index waits. None: there are more than `most` ranges. O(most).
  std::optional<bool> has(std::uint64_t index, std::size_t most) const;

 private:
  void drop_empty() {
    while (!ranges_.empty() && ranges_.back().empty()) ranges_.pop_back();
  }

  std::uint64_t tail_ = 0;
  std::uint64_t end_ = 0;
  // Below tail_, and disjoint. The last is taken first, and is not empty. The first may be empty.
  std::vector<IndexRange> ranges_;
  std::uint64_t size_ = 0;
};

}  // namespace locksley
