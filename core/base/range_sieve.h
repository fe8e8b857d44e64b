// A quick test that passes over most of very many ranges of job indexes. A value; once made, any
// thread may ask it.
#pragma once

#include <algorithm>
#include <bit>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/index_range.h"

namespace locksley {

// A filter made from a few ranges, in the manner of a Bloom filter. may_overlap() tells in a few ns
// whether another range may overlap one of them: "no" is certain, "maybe" is not. For nearly all of
// very many short ranges the answer is "no".
//
// 8 KiB: the indexes up to the highest of the few ranges are divided into 65,536 equal parts, with
// one bit for each part, which is set if one of the ranges overlaps the part. Nothing blocks or
// fails.
class RangeSieve {
 public:
  // The ranges must be ascending and disjoint, and none empty.
  explicit RangeSieve(std::span<const IndexRange> ranges) {
    if (ranges.empty()) return;
    shift_ = std::max(static_cast<int>(std::bit_width(ranges.back().high - 1)), kBits) - kBits;
    for (const IndexRange& range : ranges) {
      for (std::uint64_t part = part_of(range.low); part <= part_of(range.high - 1); ++part) parts_.set(part);
    }
  }

  // False: `range`, which is not empty, overlaps none of the ranges. True: it may overlap one.
  bool may_overlap(const IndexRange& range) const {
    constexpr std::uint64_t kFew = 8;  // parts; a guess
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
  static constexpr int kBits = 16;  // a guess
  std::uint64_t part_of(std::uint64_t index) const { return index >> shift_; }

  int shift_ = 0;
  std::bitset<std::size_t{1} << kBits> parts_;
};

}  // namespace locksley
