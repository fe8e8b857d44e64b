// A store-load barrier whose cost lies on one side: free for the frequent side, expensive for the
// rare one.
#pragma once

#include <atomic>

namespace locksley {

// Two threads each write one thing and then read what the other writes; at least one must see the
// other's write. With two ordinary barriers both pay. Here the frequent side calls light(), which
// is a barrier for the compiler only. The rare side calls heavy(), by which the kernel makes every
// running thread of the process pass a full barrier (membarrier(2), private expedited; 2.5 us
// measured).
//
// Why it holds: let F write f, light(), read r; let R write r, heavy(), read f. During heavy() F's
// thread passes a full barrier, either before its read of r, or after it. If before, the read comes
// after R's write of r is visible, and F sees it. If after, F's write of f, which comes before its
// read, is visible when heavy() returns, and R sees it. (A thread that is not running passes one
// when it is switched.)
//
// One barrier of the kernel serves all callers that wait for one: a caller that gets the mutex, and
// finds that another's barrier has begun and ended since its own call, returns. So barriers run one
// at a time, however many threads call heavy(), and interrupt the other threads no more often.
//
// Where the kernel has no such call, light() does a locked operation on a line of the caller's own
// instead, and heavy() another. ThreadSanitizer sees neither; the program orders only atomics by
// them, never plain data.
//
// Its state belongs to the process, as the kernel's barrier does: the one exception from "no
// globals". Any thread may call it. heavy() blocks for as long as one or two barriers of the kernel
// take. Nothing fails.
class AsymmetricBarrier {
 public:
  // The frequent side.
  static void light() {
    if (available_) [[likely]] {
      // fence: for the compiler alone; the other side makes the processor's.
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      locked_operation();
    }
  }
  // The rare side.
  static void heavy();

 private:
  static bool register_process();
  static void locked_operation();

  // Constant once the program runs. Before its initialisation, at the start, both sides do locked
  // operations.
  static const bool available_;
};

}  // namespace locksley
