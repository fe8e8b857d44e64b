#include "core/asymmetric_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>

namespace locksley {
namespace {

// Barriers of the kernel that have begun. While mutex is free, all of them have ended.
constinit std::atomic<std::uint64_t> barriers_begun{0};
constinit std::mutex barrier_mutex;

}  // namespace

const bool AsymmetricBarrier::available_ = register_process();

bool AsymmetricBarrier::register_process() {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void AsymmetricBarrier::locked_operation() {
  thread_local std::atomic<unsigned> own{0};
  own.fetch_add(1);
}

void AsymmetricBarrier::heavy() {
  if (!available_) {
    locked_operation();
    return;
  }
  const std::uint64_t begun = barriers_begun.load();
  const std::lock_guard lock(barrier_mutex);
  // One that has begun since this call serves it, too; that it has ended shows in the mutex being free.
  if (barriers_begun.load() != begun) return;
  barriers_begun.store(begun + 1);
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

}  // namespace locksley
