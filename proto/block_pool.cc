#include "proto/block_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace locksley::proto {

namespace {

// The memory that one page table covers. The kernel moves mappings that begin at a multiple of it
// table by table; page by page it takes 2 ms for 64 MiB.
constexpr std::size_t kTableBytes = std::size_t{2} * 1024 * 1024;

// A mapping that begins at a multiple of kTableBytes. Null: the kernel has no room.
void* map_at_table(std::size_t bytes) noexcept {
  void* const mapped =
      ::mmap(nullptr, bytes + kTableBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto up = [](std::uintptr_t address, std::uintptr_t to) { return (address + to - 1) / to * to; };
  // Distances from `mapped`.
  const std::size_t aligned = up(begin, kTableBytes) - begin;
  const std::size_t end = up(begin + aligned + bytes, page) - begin;
  const std::size_t mapped_end = up(begin + bytes + kTableBytes, page) - begin;
  char* const at = static_cast<char*>(mapped);
  if (aligned != 0) ::munmap(at, aligned);
  if (end < mapped_end) ::munmap(at + end, mapped_end - end);
  return at + aligned;
}

}  // namespace

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
  // Maps all pages at once, since the block is about to be filled, and a fault for each page would
  // cost more. For a larger block, which may grow, this would take milliseconds.
  void* memory = may_be_kept ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)
                             : map_at_table(size);
  if (memory == MAP_FAILED || memory == nullptr) throw std::bad_alloc();
  ++mapped_;
  return memory;
}

void* BlockPool::try_grow(void* memory, std::size_t from, std::size_t to) noexcept {
  if (from <= largest_kept_) return nullptr;
  if (::mremap(memory, from, to, 0) != MAP_FAILED) return memory;
  void* const place = map_at_table(to);
  if (place == nullptr) return nullptr;
  void* const moved = ::mremap(memory, from, to, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  // After a failure the place is not unmapped: the kernel may have freed it, and another thread may
  // have it already.
  return moved == MAP_FAILED ? nullptr : moved;
}

void BlockPool::give(void* memory, std::size_t bytes) noexcept {
  const std::size_t size = size_of(bytes);
  if (bytes <= largest_kept_ && keep(class_of(bytes), size, memory)) return;
  unmap(memory, size);
}

bool BlockPool::keep(std::size_t size_class, std::size_t bytes, void* memory) noexcept {
  kept_ += bytes;
  // Blocks of other sizes are unmapped: they may no longer be useful.
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
  // While the pages of a mapping are freed, no other thread can map memory. So they are freed in
  // parts, and other threads wait for some 50 us at a time.
  constexpr std::size_t kAtOnce = std::size_t{1} << 20;
  auto* const pages = static_cast<char*>(memory);
  for (std::size_t begin = 0; bytes > kAtOnce && begin < bytes; begin += kAtOnce) {
    ::madvise(pages + begin, std::min(kAtOnce, bytes - begin), MADV_DONTNEED);
  }
  ::munmap(memory, bytes);
  --mapped_;
}

}  // namespace locksley::proto
