// A thread that publishes results for workers that are busy with a long job, and keeps the lane's
// timer.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/job.h"
#include "core/sync/asymmetric_barrier.h"
#include "core/sync/parker.h"

namespace locksley {

class Pool;

// Publishes results in the place of workers that are busy with a long job. Workers publish results
// between bursts. If a burst takes unexpectedly long, two things would wait for its end: the
// results of earlier jobs, and the jobs of the burst that have not started. Within two periods the
// monitor then publishes the results in the worker's place, and makes the worker give back the rest
// of the burst after the running job. The monitor runs only while a worker has marked itself as
// having unpublished results, and is parked otherwise. Go's sysmon is the model.
// It also ends the lane's waits (Lane::end_waits()): while there are any, it is parked until the
// first of them ends.
//
// Owned by the pool, as is its thread. start() and ask_to_stop() are called under the pool's mutex,
// need() by any worker, and waits_changed() by any thread. Nothing that other threads call blocks.
// start() throws std::system_error if the thread cannot be started.
class Monitor {
 public:
  explicit Monitor(Pool& pool) : pool_(pool) {}
  ~Monitor() = default;
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // The thread. Needs: the earlier one was joined.
  [[nodiscard]] std::thread start();
  // The thread returns soon.
  void ask_to_stop();

  // A worker has marked itself as having unpublished results.
  void need() {
    AsymmetricBarrier::light();
    // [monitor-asleep] relaxed: ordered after the worker's mark by the barrier; pairs with heavy()
    // in run().
    if (asleep_.load(std::memory_order_relaxed)) [[unlikely]]
      parker_.unpark();
  }

  // Lane::on_wait().
  void waits_changed() {
    waits_changed_.store(true);
    parker_.unpark();
  }

 private:
  // The results of a job are delayed by another job for at most two periods. A guess: short
  // compared with what a person notices, long compared with the cost of a check.
  static constexpr Nanoseconds kPeriod = std::chrono::milliseconds(2);
  static constexpr unsigned kQuietPeriodsBeforePark = 10;  // 20 ms; a guess

  void run();
  // Whether any worker has marked itself. Publishes for those that have not moved since the last
  // check.
  bool check_workers(std::vector<std::uint64_t>& last_bursts);
  // Ends the lane's waits, if they have changed or if the first has ended.
  void check_waits();
  // Parks until there is something to do, or for `timeout`; none: no limit of time.
  void park(std::optional<Nanoseconds> timeout);

  // Constant.
  Pool& pool_;

  Parker parker_;
  // Written by the monitor, read by workers.
  std::atomic<bool> asleep_{false};
  // Written by start() and ask_to_stop(), read by the monitor.
  std::atomic<bool> stopping_{false};
  // Set by start(), and by any thread before it unparks the monitor, which clears it before it
  // reads the waits.
  std::atomic<bool> waits_changed_{false};

  // The monitor's thread only: when the first of the lane's waits ends; none: nothing waits.
  std::optional<Nanoseconds> next_wait_;
};

}  // namespace locksley
