// The arguments of a received command, left where they were received: 8 bytes for each argument,
// and no copy of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/block.h"

namespace locksley::proto {

// The arguments of a command, left where they were received: one array with 8 bytes (offset,
// length) for each argument, and one reference to each block that contains them. No allocation for
// an argument and no copy of its bytes.
//
// A value that can be moved, not copied: the reader fills it, a command owns it, and a batch may
// take it over and keep it for as long as its jobs need their payloads. Any number of threads may
// call the const members at once while no thread calls another one. Views stay valid until the list
// is changed or destroyed; moving the list leaves them valid. Nothing blocks. Only allocation can
// fail (std::bad_alloc).
class ArgumentList {
 public:
  class Iterator;

  ArgumentList() = default;
  ArgumentList(ArgumentList&& other) noexcept { swap(other); }
  ArgumentList& operator=(ArgumentList&& other) noexcept {
    ArgumentList taken(std::move(other));
    swap(taken);
    return *this;
  }
  ArgumentList(const ArgumentList&) = delete;
  ArgumentList& operator=(const ArgumentList&) = delete;
  ~ArgumentList() = default;

  // A list with a block of its own that holds copies of `arguments`.
  static ArgumentList copy_of(std::span<const std::string_view> arguments);

  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }

  // The i-th argument, i < size(). One comparison if all arguments are in one block, else a binary
  // search over the blocks.
  std::string_view operator[](std::size_t i) const {
    const std::size_t index = begin_ + i;
    const Segment& segment = segments_.size() == 1 ? segments_.front() : *segment_of(index);
    return view(segment, slices_[index]);
  }

  // Writes the arguments first, first + 1, … into `out`, as many as there are and fit; returns how
  // many. Faster than operator[] for many arguments: it searches once for each block.
  std::size_t fetch(std::size_t first, std::span<std::string_view> out) const;

  Iterator begin() const;
  Iterator end() const;

  // Sum of the arguments' lengths, in constant time.
  std::size_t payload_bytes() const { return payload_bytes_; }

  // No argument is longer than this; in constant time. A dropped argument may have been longer.
  std::size_t longest_bound() const { return longest_bound_; }

  // Memory that this list keeps from being freed: whole blocks (also those shared with other lists)
  // and its own arrays.
  std::size_t memory_bytes() const;

  // Removes the first n <= size() arguments, and the references to blocks that no other argument
  // needs.
  void drop_front(std::size_t n);

  // Copies the arguments into a block of their own if the list would otherwise keep blocks of more
  // than twice their size. Call it before keeping a list for long: a small command may be in a
  // block of 1 MiB. True if it copied.
  bool compact();

  // Overwrites the bytes of the i-th argument, a secret, with zeros, so that they do not remain in
  // memory that is re-used.
  void wipe(std::size_t i);

  // Makes the list empty; keeps the array of slices for re-use if it is small, but no block.
  void clear();

  void swap(ArgumentList& other) noexcept {
    slices_.swap(other.slices_);
    segments_.swap(other.segments_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    std::swap(capacity_, other.capacity_);
    std::swap(payload_bytes_, other.payload_bytes_);
    std::swap(longest_bound_, other.longest_bound_);
  }

 private:
  friend class CommandReader;

  struct Slice {
    std::uint32_t offset;
    std::uint32_t length;
  };
  static_assert(sizeof(Slice) == 8);

  // Slices from `first` (an index into slices_) to the next segment's first lie in `block`.
  struct Segment {
    BlockRef block;
    std::size_t first;
  };

  // An array of at least kMappedBytes is a mapping, which grows by moving pages. A smaller one is
  // from malloc.
  struct Free {
    Free() : bytes(0) {}
    std::size_t bytes;  // of the array
    void operator()(Slice* slices) const;
  };
  static constexpr std::size_t kMappedBytes = std::size_t{1} << 20;

  static std::string_view view(const Segment& segment, Slice slice) {
    return {segment.block->data() + slice.offset, slice.length};
  }
  const Segment* segment_of(std::size_t index) const;

  // The slices appended from now on lie in `block`.
  void open_segment(const BlockRef& block);
  // Doubles the room for slices, up to `most` unless more than that is needed already.
  void grow(std::size_t most);
  // Appends a slice to the segment that was opened last; `most` as in grow().
  void append(Slice slice, std::size_t most) {
    if (end_ == capacity_) grow(most);
    slices_[end_++] = slice;
    payload_bytes_ += slice.length;
    if (slice.length > longest_bound_) longest_bound_ = slice.length;
  }

  std::unique_ptr<Slice[], Free> slices_;
  std::vector<Segment> segments_;
  std::size_t begin_ = 0;  // first slice that is still wanted
  std::size_t end_ = 0;
  std::size_t capacity_ = 0;
  std::size_t payload_bytes_ = 0;
  std::size_t longest_bound_ = 0;
};

// Forward iterator; steps from block to block without searching.
class ArgumentList::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = std::string_view;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = std::string_view;

  Iterator() = default;
  std::string_view operator*() const { return view(*segment_, list_->slices_[index_]); }
  Iterator& operator++() {
    ++index_;
    const Segment* last = list_->segments_.data() + list_->segments_.size() - 1;
    while (segment_ < last && index_ >= segment_[1].first) ++segment_;
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }

 private:
  friend class ArgumentList;
  Iterator(const ArgumentList* list, std::size_t index, const Segment* segment)
      : list_(list), segment_(segment), index_(index) {}

  const ArgumentList* list_ = nullptr;
  const Segment* segment_ = nullptr;
  std::size_t index_ = 0;
};

inline ArgumentList::Iterator ArgumentList::begin() const {
  return {this, begin_, empty() ? nullptr : segment_of(begin_)};
}
inline ArgumentList::Iterator ArgumentList::end() const { return {this, end_, nullptr}; }

}  // namespace locksley::proto
