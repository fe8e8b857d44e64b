#include "proto/block_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace locksley::proto {

BlockPool::BlockPool(std::size_t largest_kept) : largest_kept_(largest_kept) {
  if (largest_kept > kLargestKept) std::abort();  // the smallest blocks would have a class beyond the last
}

BlockPool::~BlockPool() {
  while (drop_one()) {
  }
}

void* BlockPool::take(std::size_t bytes) {
  const bool may_be_kept = bytes <= largest_kept_;
  const std::size_t size = size_of(bytes);
  if (may_be_kept) {
    for (std::atomic<void*>& each : places_[class_of(bytes)]) {
      if (each.load() == nullptr) continue;
      if (void* const memory = each.exchange(nullptr)) {
        kept_ -= size;
        return memory;
      }
    }
  }
  // Its pages at once, since it is about to be filled, and a fault for each would cost more. Of a larger one that
  // would take milliseconds.
  const int populate = may_be_kept ? MAP_POPULATE : 0;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ++mapped_;
  return memory;
}

void* BlockPool::try_grow(void* memory, std::size_t from, std::size_t to) noexcept {
  if (from <= largest_kept_) return nullptr;
  void* const moved = ::mremap(memory, from, to, MREMAP_MAYMOVE);
  return moved == MAP_FAILED ? nullptr : moved;
}

void BlockPool::give(void* memory, std::size_t bytes) noexcept {
  const std::size_t size = size_of(bytes);
  if (bytes <= largest_kept_ && keep(class_of(bytes), size, memory)) return;
  unmap(memory, size);
}

bool BlockPool::keep(std::size_t size_class, std::size_t bytes, void* memory) noexcept {
  kept_ += bytes;
  // Those of other sizes go: they may be of no use any more.
  while (kept_.load() > kMostKept && drop_one()) {
  }
  for (std::atomic<void*>& each : places_[size_class]) {
    void* empty = nullptr;
    if (each.compare_exchange_strong(empty, memory)) return true;
  }
  kept_ -= bytes;
  return false;
}

bool BlockPool::drop_one() noexcept {
  const std::size_t first = next_drop_++;
  for (std::size_t i = 0; i < kClasses; ++i) {
    const std::size_t size_class = (first + i) % kClasses;
    for (std::atomic<void*>& each : places_[size_class]) {
      if (each.load() == nullptr) continue;
      void* const memory = each.exchange(nullptr);
      if (memory == nullptr) continue;
      const std::size_t bytes = largest_kept_ - size_class * kStep;
      kept_ -= bytes;
      unmap(memory, bytes);
      return true;
    }
  }
  return false;
}

void BlockPool::unmap(void* memory, std::size_t bytes) noexcept {
  ::munmap(memory, bytes);
  --mapped_;
}

}  // namespace locksley::proto
