#include "proto/block_pool.h"

#include <sys/mman.h>

#include <new>

namespace locksley::proto {

BlockPool::~BlockPool() {
  for (std::atomic<void*>& each : kept_) {
    if (void* const memory = each.load()) ::munmap(memory, kept_bytes_);
  }
}

void* BlockPool::take(std::size_t bytes) {
  if (bytes == kept_bytes_) {
    for (std::atomic<void*>& each : kept_) {
      if (each.load() == nullptr) continue;
      if (void* const memory = each.exchange(nullptr)) return memory;
    }
  }
  // Its pages at once, since it is about to be filled, and a fault for each would cost more. Of a larger one that
  // would take milliseconds.
  const int populate = bytes == kept_bytes_ ? MAP_POPULATE : 0;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ++mapped_;
  return memory;
}

void BlockPool::give(void* memory, std::size_t bytes) noexcept {
  if (bytes == kept_bytes_) {
    for (std::atomic<void*>& each : kept_) {
      void* empty = nullptr;
      if (each.compare_exchange_strong(empty, memory)) return;
    }
  }
  ::munmap(memory, bytes);
  --mapped_;
}

}  // namespace locksley::proto
