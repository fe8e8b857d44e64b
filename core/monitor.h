// A thread that publishes results for workers which are held up in a long job.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "core/asymmetric_barrier.h"
#include "core/job.h"
#include "core/parker.h"

namespace locksley {

class Pool;

// Workers publish results in pieces. When a piece of a claim takes unexpectedly long, what ended before would
// wait for its end, and so would its jobs that have not started: then, within two periods, the monitor
// publishes in the worker's place and has the rest of the piece handed back. It runs only while some worker
// has marked itself as having results that might be held up so, and is parked otherwise. (Go's sysmon is the
// model.)
//
// Owned by the pool. start() and stop() from one thread; need() from any worker.
class Monitor {
 public:
  explicit Monitor(Pool& pool) : pool_(pool) {}
  ~Monitor() = default;
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  void start();
  void stop();

  // A worker has marked itself as having unpublished results.
  void need() {
    AsymmetricBarrier::light();
    // [monitor-asleep] relaxed: ordered after the worker's mark by the barrier; pairs with heavy() in run().
    if (asleep_.load(std::memory_order_relaxed)) [[unlikely]]
      parker_.unpark();
  }

 private:
  // Results of a job are held back no longer than two of these by another. A guess: short beside what a
  // person notices, long beside what a look costs.
  static constexpr Nanoseconds kPeriod = std::chrono::milliseconds(2);
  static constexpr unsigned kQuietPeriodsBeforeSleep = 10;

  void run();
  bool look(std::vector<std::uint64_t>& last_pieces);

  Pool& pool_;
  Parker parker_;
  // Written by the monitor, read by workers.
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace locksley
