// The memory of received bytes: a block, and the counted references to it. The last reference frees
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "proto/block_pool.h"

namespace locksley::proto {

// A block of received memory: a header, and after it in the same allocation `capacity` bytes. The
// allocation comes from a BlockPool if it is large and there is one, else from the heap.
//
// Owned by the BlockRefs that point to it; the last one frees it, on any thread. One CommandReader
// appends to a block while other threads read the arguments that were handed out before. A byte of
// such an argument is not written again while another BlockRef exists, with one exception: the only
// reader of a secret overwrites it. Nothing here blocks. Allocation throws std::bad_alloc.
class alignas(16) Block {
 public:
  static constexpr std::size_t kMaxCapacity = 0xFFFF'FFF0;  // offsets into a block are 32 bits wide

  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::size_t capacity() const { return capacity_; }
  char* data() { return reinterpret_cast<char*>(this + 1); }
  const char* data() const { return reinterpret_cast<const char*>(this + 1); }
  // The pool of the blocks that replace this one; null: they come from the heap.
  BlockPool* pool() const { return pool_; }

 private:
  friend class BlockRef;
  Block(std::size_t capacity, BlockPool* pool)
      : capacity_(static_cast<std::uint32_t>(capacity)), pool_(pool) {}
  ~Block() = default;

  static bool is_pooled(std::size_t capacity, const BlockPool* pool) {
    return pool != nullptr && sizeof(Block) + capacity >= BlockPool::kLeastBytes;
  }

  // Written by every BlockRef's copies and destructions, on any thread. Read by is_unique(): the
  // value 1 lets the remaining owner assume that all other readers of the bytes have finished.
  std::atomic<std::uint32_t> references_{1};
  const std::uint32_t capacity_;
  BlockPool* const pool_;
};

// A counted reference to a Block; empty by default. Copying costs one atomic addition. A BlockRef
// itself belongs to one thread at a time; different BlockRefs to one block may be used on different
// threads.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(const BlockRef& other) : block_(other.block_) {
    if (block_ != nullptr) {
      // [block-count] relaxed: the copier holds a reference, so the count cannot reach 0 meanwhile,
      // and nothing is published by it.
      block_->references_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() { reset(); }

  // A block of this capacity, or of a little more from a pool. The bytes are not initialised.
  // `capacity` is at most Block::kMaxCapacity. `pool` outlives the block; null: there is none.
  static BlockRef make(std::size_t capacity, BlockPool* pool = nullptr) {
    const bool is_pooled = Block::is_pooled(capacity, pool);
    const std::size_t bytes = is_pooled ? pool->size_of(sizeof(Block) + capacity) : sizeof(Block) + capacity;
    void* const memory = is_pooled ? pool->take(bytes) : ::operator new(bytes);
    BlockRef made;
    made.block_ = new (memory) Block(bytes - sizeof(Block), pool);
    return made;
  }
  // Gives the block this capacity, which is greater than its own, without a copy of its bytes,
  // which may move. False: there is another reference, or the bytes would have to be copied.
  bool try_grow(std::size_t capacity) noexcept {
    if (!is_unique() || !Block::is_pooled(block_->capacity(), block_->pool())) return false;
    BlockPool* const pool = block_->pool();
    const std::size_t bytes = pool->size_of(sizeof(Block) + capacity);
    void* const memory = pool->try_grow(block_, sizeof(Block) + block_->capacity(), bytes);
    if (memory == nullptr) return false;
    block_ = new (memory) Block(bytes - sizeof(Block), pool);  // a new header, before the same bytes
    return true;
  }
  // The allocation of a block of this capacity.
  static constexpr std::size_t bytes_of(std::size_t capacity) { return sizeof(Block) + capacity; }

  void reset() noexcept {
    Block* block = std::exchange(block_, nullptr);
    if (block == nullptr) return;
    // [block-count] acq_rel: release orders this owner's reads of the bytes before the thread that
    // frees or re-uses the block; acquire orders the other owners' reads before the block is freed
    // here. Pairs with itself and with is_unique().
    if (block->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      free(block);
    }
  }

  // True if this is the only reference, so that the bytes may be overwritten.
  bool is_unique() const {
    // [block-count] acquire: pairs with the release of the references that were dropped; their
    // reads are over.
    return block_ != nullptr && block_->references_.load(std::memory_order_acquire) == 1;
  }

  Block* get() const { return block_; }
  Block* operator->() const { return block_; }
  explicit operator bool() const { return block_ != nullptr; }
  friend bool operator==(const BlockRef& a, const BlockRef& b) { return a.block_ == b.block_; }

 private:
  static void free(Block* block) noexcept {
    const std::size_t capacity = block->capacity();
    BlockPool* const pool = block->pool();
    block->~Block();
    if (Block::is_pooled(capacity, pool)) {
      pool->give(block, sizeof(Block) + capacity);
    } else {
      ::operator delete(block);
    }
  }

  Block* block_ = nullptr;
};

}  // namespace locksley::proto
