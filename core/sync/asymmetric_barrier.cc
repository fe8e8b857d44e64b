#include "core/sync/asymmetric_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "core/base/cache_line.h"
#include "core/base/check.h"
#include "core/sync/atomics.h"
#include "core/sync/mutex.h"

namespace locksley {
namespace {

// Both belong to the process, since the kernel's barrier does; on cache lines of their own, apart
// from available_.
alignas(kCacheLine) constinit Mutex barrier_mutex;  // held while a barrier runs
// Barriers that have begun. While the mutex is free, all of them have ended. Written under
// barrier_mutex, read by any thread.
alignas(kCacheLine) constinit std::atomic<std::uint64_t> barriers_begun{0};

void run_barrier() LOCKSLEY_REQUIRES(barrier_mutex) {
  barriers_begun.fetch_add(1);
  check(::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0, "membarrier failed");
}

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
  // Everything that the caller wrote before is visible from here on, so a barrier that another
  // thread begins after this serves the caller, too.
  locked_operation();
  if (!available_) return;
  const std::uint64_t begun = barriers_begun.load();
  const MutexLock lock(barrier_mutex);
  // Another thread has begun a barrier after that, and this thread could take the mutex only
  // because the barrier has ended.
  if (barriers_begun.load() != begun) return;
  run_barrier();
}

}  // namespace locksley
