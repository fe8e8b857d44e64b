// Keeps the allocator fast where very many small objects are freed.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace locksley::daemon {

// Lets the allocator sort the pieces that were freed since its last search. Pieces between others
// that are still used cannot be joined, and go into a list; the next allocation of more than 1 KiB
// goes through all of the list: 15 ms after 90,000 pieces. So work that frees very many small
// objects in slices calls this function in each slice; it takes some 100 ns for each piece.
//
// Any thread. Nothing blocks or fails.
inline void sort_freed_memory() {
  constexpr std::size_t kLarge =
      100'000;  // no thread keeps such a piece for itself, and hardly any piece has just this size
  void* volatile const piece = std::malloc(kLarge);
  std::free(piece);
}

}  // namespace locksley::daemon
