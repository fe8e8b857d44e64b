// How long the thread of a loop works without polling its sockets.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/base/job.h"
#include "core/pool/worker_stats.h"
#include "daemon/base/loop/processor_time.h"

namespace locksley::daemon {

// How long the thread of a loop works between two polls of its sockets, in its own processor time:
// work for one client delays all others by that time. Wall-clock time would also count the time of
// other programs. Written by that thread, read by any.
struct IoStretches {
  static constexpr std::chrono::milliseconds kLong{2};

  OwnedCounter polls;
  OwnedCounter longest_ns;  // gauge: since the start
  OwnedCounter long_ones;   // in all: longer than kLong
};

// Measures these stretches. The processor time of a thread costs a system call, so it is read once
// in kEvery at most: a reported stretch may be too long by kEvery.
//
// A local of run_io_loop(); that thread only. Nothing blocks or fails.
class StretchMeter {
 public:
  static constexpr std::chrono::microseconds kEvery{100};

  explicit StretchMeter(IoStretches& stretches) : stretches_(stretches) {}

  // The sockets have just been polled.
  void polled() {
    stretches_.polls.add(1);
    const Nanoseconds at = steady_now();
    if (at - read_at_ < kEvery) return;
    const Nanoseconds used = processor_time();
    if (read_at_.count() != 0) count(used - used_);
    read_at_ = at;
    used_ = used;
  }

 private:
  void count(Nanoseconds stretch) {
    const auto ns = static_cast<std::uint64_t>(stretch.count());
    if (ns > stretches_.longest_ns.get()) stretches_.longest_ns.set(ns);
    if (stretch > IoStretches::kLong) stretches_.long_ones.add(1);
  }

  IoStretches& stretches_;
  Nanoseconds read_at_{0};  // steady-clock time of the last reading; 0: none yet
  Nanoseconds used_{0};     // the thread's processor time at that reading
};

}  // namespace locksley::daemon
