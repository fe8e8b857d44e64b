// A histogram of durations with fixed bounds, which many threads write and read cheaply at once.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "core/base/job.h"

namespace locksley {

// Counts by bucket, and the sum. The upper bounds run from 1 us to 16.8 s, each four times the one
// before, then +Inf: wide enough for jobs from echo to thumbnails, and few enough to keep as time
// series (a guess).
//
// observe() and snapshot() may be called from any thread; nothing blocks or fails. A
// snapshot may miss an observation that is made at the same time; it never tears a count.
class DurationHistogram {
 public:
  static constexpr std::size_t kBuckets = 14;  // the last one is +Inf
  static constexpr std::array<double, kBuckets - 1> kBoundsSeconds = {
      1e-6,     4e-6,     16e-6,    64e-6,    256e-6,   1024e-6,  4096e-6,
      0.016384, 0.065536, 0.262144, 1.048576, 4.194304, 16.777216};

  struct Snapshot {
    std::array<std::uint64_t, kBuckets> counts{};  // not cumulative
    double sum_seconds = 0;
  };

  // `count` observations of `each`, which is not negative.
  void observe(Nanoseconds each, std::uint64_t count = 1) {
    // [histogram] relaxed: independent counters; a reader that sees one of them before the other
    // shows a sum that is a moment older.
    counts_[bucket_of(each)].fetch_add(count, std::memory_order_relaxed);
    // [histogram] relaxed: as above.
    sum_nanoseconds_.fetch_add(static_cast<std::uint64_t>(each.count()) * count, std::memory_order_relaxed);
  }

  Snapshot snapshot() const {
    Snapshot result;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      // [histogram] relaxed: as above.
      result.counts[i] = counts_[i].load(std::memory_order_relaxed);
    }
    // [histogram] relaxed: as above.
    result.sum_seconds = static_cast<double>(sum_nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
    return result;
  }

  static constexpr std::size_t bucket_of(Nanoseconds duration) {
    std::uint64_t bound = 1000;
    for (std::size_t i = 0; i + 1 < kBuckets; ++i, bound *= 4) {
      if (static_cast<std::uint64_t>(duration.count()) <= bound) return i;
    }
    return kBuckets - 1;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
  std::atomic<std::uint64_t> sum_nanoseconds_{0};
};

}  // namespace locksley
