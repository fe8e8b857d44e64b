// A thread that publishes results for workers that are held up in a long job.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "core/base/job.h"
#include "core/sync/asymmetric_barrier.h"
#include "core/sync/parker.h"

namespace locksley {

class Pool;

// Publishes for workers that do not get to it. Workers publish results between bursts. When a burst
// takes unexpectedly long, the results before it would wait for its end, and so would those of its
// jobs that have not started. Within two periods the monitor then publishes in the worker's place,
// and has the rest of the burst handed back. It runs only while some worker has marked itself as
// having results that might be delayed so, and is parked otherwise. Go's sysmon is the model.
//
// Owned by the pool. start() and stop() are called under the pool's mutex, need() by any worker.
// stop() blocks until the thread has ended, need() never. start() throws std::system_error if the
// thread cannot be started.
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
    // [monitor-asleep] relaxed: ordered after the worker's mark by the barrier; pairs with heavy()
    // in run().
    if (asleep_.load(std::memory_order_relaxed)) [[unlikely]]
      parker_.unpark();
  }

 private:
  // The results of a job are delayed by another job for at most two periods. A guess: short beside
  // what a person notices, long beside the cost of a check.
  static constexpr Nanoseconds kPeriod = std::chrono::milliseconds(2);
  static constexpr unsigned kQuietPeriodsBeforeSleep = 10;

  void run();
  bool check_workers(std::vector<std::uint64_t>& last_bursts);

  // Constant.
  Pool& pool_;

  Parker parker_;
  // Written by the monitor, read by workers.
  std::atomic<bool> asleep_{false};
  // Written by start() and stop(), read by the monitor.
  std::atomic<bool> stopping_{false};

  // Guarded by the pool's mutex.
  std::thread thread_;
};

}  // namespace locksley
