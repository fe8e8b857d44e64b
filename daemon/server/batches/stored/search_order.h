// In which order a search checks the rows of a batch, to find the row of one job.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/index_range.h"

namespace locksley::daemon {

// Rows lie in the order in which jobs ended, which is about the order of their indexes. So the
// search begins where the row would be if the two orders were the same. It goes on alternately:
// upwards from there, downwards from there, and from the end, where the rows of retried jobs lie.
// Each row comes once.
//
// A member of JobSearch; one thread at a time. O(1). Nothing blocks or fails.
class SearchOrder {
 public:
  static constexpr std::uint64_t kRowsAtOnce = 4096;  // some 50 us in memory

  // For the job of this index; the batch has `rows` rows.
  SearchOrder(std::uint64_t index, std::uint64_t rows)
      : low_(std::min(index, rows)), high_(low_), tail_(rows), end_(rows) {}

  // The next rows to check, at most kRowsAtOnce; empty: all were checked. The rows below `first`
  // were discarded; `rows` is how many there are now: rows that have come since are checked last.
  // Neither may fall from call to call.
  IndexRange next(std::uint64_t first, std::uint64_t rows) {
    if (low_ <= first && high_ == tail_ && rows > end_) return newest(rows);
    for (int i = 0; i < 3; ++i) {
      switch (turn_++ % 3) {
        case 0:
          if (high_ != tail_) return upwards();
          break;
        case 1:
          if (low_ > first) return downwards(first);
          break;
        default:
          if (high_ != tail_) return from_the_end();
      }
    }
    return {0, 0};
  }

 private:
  // Each needs: there are such rows.
  IndexRange upwards() {
    const std::uint64_t low = std::exchange(high_, std::min(tail_, high_ + kRowsAtOnce));
    return {low, high_};
  }
  IndexRange downwards(std::uint64_t first) {
    const std::uint64_t high = low_;
    low_ -= std::min(kRowsAtOnce, low_ - first);
    return {low_, high};
  }
  IndexRange from_the_end() {
    const std::uint64_t high = tail_;
    tail_ -= std::min(kRowsAtOnce, tail_ - high_);
    return {tail_, high};
  }
  IndexRange newest(std::uint64_t rows) {
    const std::uint64_t low = std::exchange(end_, std::min(rows, end_ + kRowsAtOnce));
    high_ = tail_ = end_;
    return {low, end_};
  }

  // Returned: [low_, high_) and [tail_, end_).
  std::uint64_t low_, high_, tail_, end_;
  unsigned turn_ = 0;
};

}  // namespace locksley::daemon
