// The memory of large blocks: mappings apart from the heap. A few freed blocks are kept for re-use.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace locksley::proto {

// The memory of large blocks, apart from the heap: each is a mapping of its own. So a thread that
// frees very many blocks takes some 50 us for each, and other threads can allocate in between. In
// the heap, freeing the last block would give back the memory of all at once: for 70 MB, other
// threads that allocate would wait for 15 ms.
//
// Freed blocks of up to about 1 MiB are kept, at most kMostKept bytes of them, and used again for
// blocks of about their size: a fresh page costs a fault, and a batch of 10,000 short payloads
// takes eighty pages.
//
// The daemon has one (SchedulerParts); it outlives all blocks that come from it. Any thread;
// nothing blocks. Allocation throws std::bad_alloc.
class BlockPool {
 public:
  static constexpr std::size_t kLeastBytes = 256 * 1024;  // smaller blocks come from the heap
  static constexpr std::size_t kStep = 32 * 1024;         // between two sizes of blocks that are kept
  // Bytes of all freed blocks that are kept. Guess: enough for a few connections with large
  // batches.
  static constexpr std::size_t kMostKept = 8 * 1024 * 1024;

  // `largest_kept`: the size of the largest block that is kept, header included; at most
  // kLargestKept.
  explicit BlockPool(std::size_t largest_kept);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // The size of the memory that take() returns for `bytes`: at least as large, by less than kStep.
  std::size_t size_of(std::size_t bytes) const {
    return bytes > largest_kept_ ? bytes : largest_kept_ - class_of(bytes) * kStep;
  }
  // Needs: bytes >= kLeastBytes. give() gets the number that take() got, or size_of() that number.
  void* take(std::size_t bytes);
  void give(void* memory, std::size_t bytes) noexcept;
  // Moves `from` bytes that came from take() to a mapping of `to` bytes, without a copy: the kernel
  // moves their pages, by whole tables of 2 MiB. Null: blocks of this size are kept, or the kernel
  // has no room; the bytes stay where they are.
  void* try_grow(void* memory, std::size_t from, std::size_t to) noexcept;

  // The number of mappings: of blocks in use, and of kept blocks.
  std::size_t mapped() const { return mapped_.load(); }
  // The bytes of the kept blocks.
  std::size_t kept() const { return kept_.load(); }

 private:
  // Classes of kept blocks by size, the largest first.
  static constexpr std::size_t kClasses = 25;

 public:
  // The largest size for which kClasses classes are enough. A block of 1 MiB with its header is
  // smaller.
  static constexpr std::size_t kLargestKept = kLeastBytes + kClasses * kStep - 1;

 private:
  static constexpr std::size_t kEach = 8;
  // Kept memory, or null. Any thread takes it by an exchange for null, and gives it by a
  // compare-exchange of null; so the thread that takes it also sees all writes of the thread that
  // gave it. All seq_cst.
  using Places = std::array<std::atomic<void*>, kEach>;

  std::size_t class_of(std::size_t bytes) const { return (largest_kept_ - bytes) / kStep; }
  bool keep(std::size_t size_class, std::size_t bytes, void* memory) noexcept;
  // Unmaps one kept block. False: there is none.
  bool drop_one() noexcept;
  void unmap(void* memory, std::size_t bytes) noexcept;

  const std::size_t largest_kept_;
  std::array<Places, kClasses> places_{};
  std::atomic<std::size_t> kept_{0};       // bytes; counted before a block is put into its place
  std::atomic<std::size_t> next_drop_{0};  // the class in which drop_one() begins
  std::atomic<std::size_t> mapped_{0};     // a counter: readers conclude nothing from it
};

}  // namespace locksley::proto
