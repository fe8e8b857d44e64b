#include "core/asymmetric_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>

#include "core/atomics.h"
#include "core/check.h"

namespace locksley {
namespace {

// Of the process, because a barrier of the kernel is; on a line of their own, apart from available_.
// Barriers that have begun. While the mutex is free, all of them have ended.
alignas(kCacheLine) constinit std::atomic<std::uint64_t> barriers_begun{0};
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
  // What the caller wrote before is visible from here on, so that a barrier which another has begun serves.
  locked_operation();
  if (!available_) return;
  const std::uint64_t begun = barriers_begun.load();
  const std::lock_guard lock(barrier_mutex);
  // One that has begun since this call serves it, too; that it has ended shows in the mutex being free.
  if (barriers_begun.load() != begun) return;
  barriers_begun.store(begun + 1);
  check(::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0, "membarrier failed");
}

}  // namespace locksley
