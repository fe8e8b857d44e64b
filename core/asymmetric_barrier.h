// A store-load barrier whose cost lies on one side: free for the many, dear for the few.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace locksley {

// Two threads each write one thing and then read what the other writes; at least one must see the other's
// write. With two ordinary barriers both pay. Here the frequent side calls light(), which stops only the
// compiler, and the rare side calls heavy(), by which the kernel makes every running thread of the process
// pass a full barrier (membarrier(2), private expedited; 2.5 us measured).
//
// Why it holds: let F write f, light(), read r; let R write r, heavy(), read f. During heavy() F's thread
// passes a full barrier, either before its read of r, or after it. If before, the read comes after R's write
// of r is visible, and F sees it. If after, F's write of f, which comes before its read, is visible when
// heavy() returns, and R sees it. (A thread that is not running passes one when it is switched.)
//
// Where the kernel has no such call, light() does a locked operation on a line of the caller's own instead,
// and heavy() another. ThreadSanitizer sees neither; what they order here are atomic hints, never plain data.
//
// One an owner of both sides; construct before either side runs. Any thread. Never fails.
class AsymmetricBarrier {
 public:
  AsymmetricBarrier()
      : available_(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0) {}

  // `own`: any atomic that the calling thread alone writes; used only where membarrier is missing.
  void light(std::atomic<unsigned>& own) const {
    if (available_) [[likely]] {
      // fence: for the compiler alone; the other side makes the processor's.
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      own.fetch_add(1);
    }
  }
  void heavy() const {
    if (available_) [[likely]] {
      syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    } else {
      std::atomic<unsigned> own{0};
      own.fetch_add(1);
    }
  }

 private:
  const bool available_;
};

}  // namespace locksley
