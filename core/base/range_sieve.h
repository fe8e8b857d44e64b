// A quick test that passes over most of very many ranges of job indexes.
#pragma once

#include <algorithm>
#include <bit>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/index_range.h"

namespace locksley {

// Says of nearly all of very many short ranges, in a few ns each, that they have no index in common with a few others.
//
// 8 KiB: one bit for each of 65,536 equal parts of the indexes up to the highest of the others; it is set if one of
// these lies there. Nothing blocks or fails.
class RangeSieve {
 public:
  // Needs: ascending and disjoint, none empty.
  explicit RangeSieve(std::span<const IndexRange> ranges) {
    if (ranges.empty()) return;
    shift_ = std::max(static_cast<int>(std::bit_width(ranges.back().high - 1)), kBits) - kBits;
    for (const IndexRange& range : ranges) {
      for (std::uint64_t part = part_of(range.low); part <= part_of(range.high - 1); ++part) parts_.set(part);
    }
  }

  // False: `range`, which is not empty, has no index in common with them. True: it may have.
  bool may_overlap(const IndexRange& range) const {
    constexpr std::uint64_t kFew = 8;
    const std::uint64_t first = part_of(range.low);
    if (first >= parts_.size()) return false;
    const std::uint64_t last = part_of(range.high - 1);
    if (last - first > kFew || last >= parts_.size()) return true;
    for (std::uint64_t part = first; part <= last; ++part) {
      if (parts_.test(part)) return true;
    }
    return false;
  }

 private:
  static constexpr int kBits = 16;
  std::uint64_t part_of(std::uint64_t index) const { return index >> shift_; }

  int shift_ = 0;
  std::bitset<std::size_t{1} << kBits> parts_;
};

}  // namespace locksley
