// A set of job indexes, from which parts are taken in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

#include "core/base/index_range.h"

namespace locksley {

// Indexes as disjoint ranges, in a tree: 70 bytes for each range. Parts may be taken in any order;
// to take a part costs O(log ranges), and O(1) for each range in it.
//
// A plain value; the caller synchronises the calls. Nothing blocks; only allocation can fail.
class IndexSet {
 public:
  bool empty() const { return ranges_.empty(); }
  // The number of indexes.
  std::uint64_t size() const { return size_; }
  // The number of ranges in the set.
  std::size_t parts() const { return ranges_.size(); }
  // The least index. The set must not be empty.
  std::uint64_t first() const { return ranges_.begin()->first; }

  bool contains(std::uint64_t index) const {
    const auto after = ranges_.upper_bound(index);
    return after != ranges_.begin() && index < std::prev(after)->second;
  }
  // Whether an index of the set is less than `index`.
  bool has_below(std::uint64_t index) const { return !empty() && first() < index; }
  // How many indexes of the set are less than `index`. O(ranges below it).
  std::uint64_t count_below(std::uint64_t index) const {
    std::uint64_t count = 0;
    for (auto at = ranges_.begin(); at != ranges_.end() && at->first < index; ++at)
      count += std::min(at->second, index) - at->first;
    return count;
  }

  // `range`: disjoint from those in the set.
  void add(IndexRange range) {
    if (range.empty()) return;
    ranges_.emplace(range.low, range.high);
    size_ += range.size();
  }
  // Removes the indexes of `range` from the set, and returns those that it had, ascending.
  std::vector<IndexRange> take(IndexRange range) {
    std::vector<IndexRange> taken;
    if (range.low >= range.high) return taken;
    auto at = ranges_.upper_bound(range.low);
    if (at != ranges_.begin() && std::prev(at)->second > range.low) --at;
    while (at != ranges_.end() && at->first < range.high) {
      const IndexRange old{at->first, at->second};
      const IndexRange both{std::max(old.low, range.low), std::min(old.high, range.high)};
      if (old.low < both.low) {
        at->second = both.low;
        ++at;
      } else {
        at = ranges_.erase(at);
      }
      if (both.high < old.high) at = ranges_.emplace_hint(at, both.high, old.high);
      taken.push_back(both);
      size_ -= both.size();
    }
    return taken;
  }
  std::vector<IndexRange> take_all() { return take({0, std::numeric_limits<std::uint64_t>::max()}); }
  // The set as ranges, ascending; only of its first `most` indexes.
  std::vector<IndexRange> ranges(std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) const {
    std::vector<IndexRange> result;
    for (auto at = ranges_.begin(); at != ranges_.end() && most != 0; ++at) {
      const IndexRange range{at->first, at->first + std::min(most, at->second - at->first)};
      result.push_back(range);
      most -= range.size();
    }
    return result;
  }
  // The index at position `before`, in ascending order; the last index if the set has fewer.
  // O(ranges). The set must not be empty.
  std::uint64_t at(std::uint64_t before) const {
    for (const auto& [low, high] : ranges_) {
      if (before < high - low) return low + before;
      before -= high - low;
    }
    return std::prev(ranges_.end())->second - 1;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // low to high
  std::uint64_t size_ = 0;
};

}  // namespace locksley
