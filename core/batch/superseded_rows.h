// Which rows of failed jobs no longer count, because their jobs were queued again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/index_range.h"

namespace locksley {

// Rows of these jobs that lie below this row of the log.
struct SupersededJobs {
  IndexRange jobs;
  std::uint64_t below = 0;
  friend bool operator==(const SupersededJobs&, const SupersededJobs&) = default;
};
// Disjoint, ascending by job.
using SupersededList = std::vector<SupersededJobs>;

// The rows of failed jobs that no longer count: all of those below one row, and those of some jobs
// below other rows. A copy shares the list. Any thread, as long as no other thread changes the same
// object. Nothing blocks.
struct SupersededRows {
  std::uint64_t below = 0;
  std::shared_ptr<const SupersededList> jobs;  // null: none

  // Whether the row at `place`, of the failed job `index`, no longer counts. O(log n) if there is a
  // list.
  bool covers(std::uint64_t place, std::uint64_t index) const {
    return place < below || (jobs != nullptr && covers_one(place, index));
  }
  // Records that the jobs `some`, ascending and disjoint, are queued again while the log has `row`
  // rows. O(n).
  void add(std::span<const IndexRange> some, std::uint64_t row);
  // All jobs that have failed are queued again while the log has `row` rows.
  void add_all(std::uint64_t row) {
    below = row;
    jobs = nullptr;
  }
  std::size_t ranges() const { return jobs != nullptr ? jobs->size() : 0; }
  std::size_t memory_bytes() const { return jobs != nullptr ? jobs->capacity() * sizeof(SupersededJobs) : 0; }

 private:
  bool covers_one(std::uint64_t place, std::uint64_t index) const;
};

}  // namespace locksley
