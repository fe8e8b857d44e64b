#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace locksley::proto {

// The memory of large blocks, apart from the heap: each is a mapping of its own. So a thread that frees very many of them
// takes some 50 us for each, and others can allocate. In the heap the last one to be freed would give the memory of all of
// them back at once: 15 ms for 70 MB, and other threads that allocate would wait meanwhile.
//
// Some blocks of the size that readers use are kept, and used again.
//
// Owned by main(); outlives all blocks that come from it. Any thread; nothing blocks. Allocation throws std::bad_alloc.
class BlockPool {
 public:
  static constexpr std::size_t kLeastBytes = 256 * 1024;  // smaller blocks come from the heap
  static constexpr std::size_t kMostKept =
      8;  // guess: what a connection uses that sends one batch after another

  // Blocks of this size are kept, those of other sizes are not.
  explicit BlockPool(std::size_t kept_bytes) : kept_bytes_(kept_bytes) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Needs: bytes >= kLeastBytes. give(): the same number as for take().
  void* take(std::size_t bytes);
  void give(void* memory, std::size_t bytes) noexcept;

  // How many mappings there are: of blocks in use, and kept ones.
  std::size_t mapped() const { return mapped_.load(); }

 private:
  const std::size_t kept_bytes_;
  // Kept memory, or null. A thread that takes it exchanges it for null; one that gives it puts it in place of null.
  std::array<std::atomic<void*>, kMostKept> kept_{};
  std::atomic<std::size_t> mapped_{0};  // a counter: readers conclude nothing from it
};

}  // namespace locksley::proto
