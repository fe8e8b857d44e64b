// Sets of job indexes, as ranges. Pure functions; only allocation fails.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index_range.h"

namespace locksley {

// Appends a range, or extends the last one if `range` begins at its end.
inline void append_range(std::vector<IndexRange>& to, IndexRange range) {
  if (range.empty()) return;
  if (!to.empty() && to.back().high == range.low) {
    to.back().high = range.high;
  } else {
    to.push_back(range);
  }
}

// The number of indexes in the ranges, which must be disjoint.
inline std::uint64_t count_of(std::span<const IndexRange> ranges) {
  std::uint64_t sum = 0;
  for (const IndexRange& range : ranges) sum += range.size();
  return sum;
}

// The same set of indexes, ascending, in as few ranges as possible. The ranges must be disjoint.
inline std::vector<IndexRange> sorted(std::vector<IndexRange> ranges) {
  std::ranges::sort(ranges, {}, &IndexRange::low);
  std::vector<IndexRange> result;
  for (const IndexRange& range : ranges) append_range(result, range);
  return result;
}

// The indexes in `all` that are not in `without`. Both must be ascending and disjoint.
inline std::vector<IndexRange> difference(std::span<const IndexRange> all,
                                          std::span<const IndexRange> without) {
  std::vector<IndexRange> result;
  auto gone = without.begin();
  for (IndexRange range : all) {
    while (gone != without.end() && gone->high <= range.low) ++gone;
    for (auto at = gone; at != without.end() && at->low < range.high; ++at) {
      if (at->low > range.low) append_range(result, {range.low, at->low});
      range.low = std::min(at->high, range.high);
    }
    append_range(result, range);
  }
  return result;
}

// The ranges that have an index in common with `range`. `ranges` must be ascending and disjoint.
inline std::span<const IndexRange> overlapping(std::span<const IndexRange> ranges, IndexRange range) {
  const auto first = std::ranges::upper_bound(ranges, range.low, {}, &IndexRange::high);
  const auto last = std::ranges::lower_bound(first, ranges.end(), range.high, {}, &IndexRange::low);
  return {first, last};
}

// Whether one of the ranges has the index. They must be ascending and disjoint.
inline bool contains(std::span<const IndexRange> ranges, std::uint64_t index) {
  const auto after = std::ranges::upper_bound(ranges, index, {}, &IndexRange::low);
  return after != ranges.begin() && index < (after - 1)->high;
}

}  // namespace locksley
