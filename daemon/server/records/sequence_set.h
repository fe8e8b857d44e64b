// A set of sequence numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace locksley::daemon {

// A set of sequence numbers of batches, in their order. A page has a bit for each of 64 successive
// numbers. The numbers in the set lie close together, so inserting and erasing usually take no
// allocation.
//
// A plain container of one thread. O(log n), with n of pages. Only inserting may fail
// (std::bad_alloc).
class SequenceSet {
 public:
  // No effect if it is there.
  void insert(std::uint64_t sequence) {
    const std::uint64_t number = sequence / kBits;
    if (!pages_.empty()) {
      if (const auto last = std::prev(pages_.end()); last->first == number) {
        last->second |= bit_of(sequence);
        return;
      }
    }
    pages_.try_emplace(pages_.end(), number, 0)->second |= bit_of(sequence);
  }
  // False, without effect, if it is not there.
  bool erase(std::uint64_t sequence) {
    const auto found = pages_.find(sequence / kBits);
    if (found == pages_.end() || (found->second & bit_of(sequence)) == 0) return false;
    found->second &= ~bit_of(sequence);
    if (found->second == 0) pages_.erase(found);
    return true;
  }
  bool contains(std::uint64_t sequence) const {
    const auto found = pages_.find(sequence / kBits);
    return found != pages_.end() && (found->second & bit_of(sequence)) != 0;
  }
  bool empty() const { return pages_.empty(); }

  // The first number that is `sequence` or greater; none if there is none.
  std::optional<std::uint64_t> from(std::uint64_t sequence) const {
    auto next = pages_.lower_bound(sequence / kBits);
    if (next == pages_.end()) return std::nullopt;
    std::uint64_t left = next->second;
    if (next->first == sequence / kBits) left &= ~(bit_of(sequence) - 1);
    if (left == 0 && ++next == pages_.end()) return std::nullopt;
    if (left == 0) left = next->second;
    return next->first * kBits + static_cast<std::uint64_t>(std::countr_zero(left));
  }

 private:
  static constexpr std::uint64_t kBits = 64;
  static std::uint64_t bit_of(std::uint64_t sequence) { return std::uint64_t{1} << sequence % kBits; }

  std::map<std::uint64_t, std::uint64_t> pages_;  // bits by number of page; never 0
};

}  // namespace locksley::daemon
