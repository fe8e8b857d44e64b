// A range of job indexes, or of the indexes of a loop. A plain value.
#pragma once

#include <cstdint>

namespace locksley {

// [low, high). Empty if low == high.
struct IndexRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  constexpr std::uint64_t size() const { return high - low; }
  constexpr bool empty() const { return low == high; }
  friend constexpr bool operator==(const IndexRange&, const IndexRange&) = default;
};

}  // namespace locksley
