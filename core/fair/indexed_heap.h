// A heap whose elements know their place in it, so that any key can be changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace locksley {

// The place of an element that is in no heap.
inline constexpr std::uint32_t kNotInHeap = std::numeric_limits<std::uint32_t>::max();

// A 4-ary min-heap of pointers. The keys lie beside the pointers in one array: comparisons read the
// array only, and the four children that are compared lie in two or three cache lines. The element
// stores its place in the array, in the member that `place(element)` refers to; kNotInHeap there
// means that it is in no heap. Key is small and ordered by <.
//
// Borrows its elements. The caller synchronises the calls. push, update and remove are
// O(log n), top is O(1). Memory grows as a vector's does and is not given back, so that a steady
// state allocates nothing.
template <class Element, class Key, std::uint32_t& (*place)(Element&)>
class IndexedHeap {
 public:
  struct Entry {
    Key key;
    Element* element;
  };

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  // The heap must not be empty.
  Element& top() const { return *entries_.front().element; }
  const Key& top_key() const { return entries_.front().key; }
  // All entries, in no useful order.
  const std::vector<Entry>& entries() const { return entries_; }

  // Allocates, and may throw std::bad_alloc, when it holds more than ever before: then it has no
  // effect. Nothing else fails.
  void push(Element& element, const Key& key) {
    entries_.push_back({key, &element});
    sift_up(entries_.size() - 1, {key, &element});
  }

  void update(Element& element, const Key& key) { put(place(element), {key, &element}); }

  // `by`, which is in no heap, takes the place of `element`, with the same key.
  void replace(Element& element, Element& by) {
    place(by) = place(element);
    entries_[place(by)].element = &by;
    place(element) = kNotInHeap;
  }

  void remove(Element& element) {
    const std::size_t hole = place(element);
    place(element) = kNotInHeap;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (hole < entries_.size()) put(hole, last);
  }

  // Replaces every key by change(key), which must preserve the order.
  template <class Change>
  void change_keys(Change change) {
    for (Entry& entry : entries_) entry.key = change(entry.key);
  }

 private:
  static constexpr std::size_t kArity = 4;

  void put(std::size_t index, const Entry& entry) {
    if (index > 0 && entry.key < entries_[(index - 1) / kArity].key) {
      sift_up(index, entry);
    } else {
      sift_down(index, entry);
    }
  }

  void set(std::size_t index, const Entry& entry) {
    entries_[index] = entry;
    place(*entry.element) = static_cast<std::uint32_t>(index);
  }

  void sift_up(std::size_t index, const Entry& entry) {
    while (index > 0) {
      const std::size_t parent = (index - 1) / kArity;
      if (!(entry.key < entries_[parent].key)) break;
      set(index, entries_[parent]);
      index = parent;
    }
    set(index, entry);
  }

  void sift_down(std::size_t index, const Entry& entry) {
    const std::size_t size = entries_.size();
    for (;;) {
      const std::size_t first = index * kArity + 1;
      if (first >= size) break;
      const Entry* const children = entries_.data() + first;
      const Entry* const end = children + (kArity < size - first ? kArity : size - first);
      const Entry* least = children;
      for (const Entry* child = children + 1; child != end; ++child) {
        if (child->key < least->key) least = child;
      }
      if (!(least->key < entry.key)) break;
      set(index, *least);
      index = first + static_cast<std::size_t>(least - children);
    }
    set(index, entry);
  }

  std::vector<Entry> entries_;
};

}  // namespace locksley
