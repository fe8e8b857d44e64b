// A map by sequence number.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace locksley::daemon {

// Objects in the order of their sequence numbers. Batches get growing numbers, and most leave in
// about that order, so the numbers in the map lie close together: a page has a place for each of
// kPlaces successive numbers. Adding and removing usually take no allocation, and search only a few
// pages.
//
// A plain container of one thread; it does not own the objects. O(log n), with n of pages. An
// object that is alone in its page takes some 200 bytes. Only adding may fail (std::bad_alloc).
template <class Object>
class SequenceMap {
 public:
  // Needs: there is none with this number.
  void add(std::uint64_t sequence, Object& object) {
    Page& page = page_for(sequence);
    page.places[place_of(sequence)] = &object;
    page.taken |= bit_of(sequence);
    ++size_;
  }
  // No effect if there is none.
  void erase(std::uint64_t sequence) {
    const auto found = pages_.find(number_of(sequence));
    if (found == pages_.end() || (found->second.taken & bit_of(sequence)) == 0) return;
    found->second.taken &= static_cast<Bits>(~bit_of(sequence));
    if (found->second.taken == 0) pages_.erase(found);
    --size_;
  }

  // The next three functions return null if there is no such object.
  Object* find(std::uint64_t sequence) const {
    const auto found = pages_.find(number_of(sequence));
    if (found == pages_.end() || (found->second.taken & bit_of(sequence)) == 0) return nullptr;
    return found->second.places[place_of(sequence)];
  }
  // The first one whose number is `sequence` or greater.
  Object* from(std::uint64_t sequence) const {
    auto next = pages_.lower_bound(number_of(sequence));
    if (next == pages_.end()) return nullptr;
    Bits left = next->second.taken;
    if (next->first == number_of(sequence)) left &= static_cast<Bits>(~(bit_of(sequence) - 1U));
    if (left == 0 && ++next == pages_.end()) return nullptr;
    if (left == 0) left = next->second.taken;
    return next->second.places[static_cast<std::size_t>(std::countr_zero(left))];
  }
  // The last one whose number is less than `sequence`.
  Object* before(std::uint64_t sequence) const {
    auto next = pages_.upper_bound(number_of(sequence));
    if (next == pages_.begin()) return nullptr;
    --next;
    Bits left = next->second.taken;
    if (next->first == number_of(sequence)) left &= static_cast<Bits>(bit_of(sequence) - 1U);
    if (left == 0 && next == pages_.begin()) return nullptr;
    if (left == 0) left = (--next)->second.taken;
    return next->second.places[static_cast<std::size_t>(std::bit_width(left)) - 1];
  }

  std::size_t size() const { return size_; }

 private:
  using Bits = std::uint16_t;
  static constexpr unsigned kShift = 4;
  static constexpr std::size_t kPlaces = std::size_t{1} << kShift;

  struct Page {
    Bits taken = 0;                       // bit i: places[i] is; never 0 in pages_
    std::array<Object*, kPlaces> places;  // by the last bits of the number
  };

  static std::uint64_t number_of(std::uint64_t sequence) { return sequence >> kShift; }
  static std::size_t place_of(std::uint64_t sequence) { return sequence % kPlaces; }
  static Bits bit_of(std::uint64_t sequence) { return static_cast<Bits>(1U << place_of(sequence)); }

  // Usually the page of the last added number, or the page after it.
  Page& page_for(std::uint64_t sequence) {
    const std::uint64_t number = number_of(sequence);
    if (!pages_.empty()) {
      if (const auto last = std::prev(pages_.end()); last->first == number) return last->second;
    }
    return pages_.try_emplace(pages_.end(), number)->second;
  }

  std::map<std::uint64_t, Page> pages_;
  std::size_t size_ = 0;
};

}  // namespace locksley::daemon
