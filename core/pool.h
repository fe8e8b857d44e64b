// The work-stealing pool: workers that claim jobs from a lane's ring, run them, and steal from each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/lane.h"
#include "core/worker_stats.h"

namespace locksley {

class Context;
class Idle;
class Monitor;
class TaskDepot;
class Worker;

// Threads: any thread may call anything, except that workers must not call stop(), drain() or set_workers()
// (they would wait for themselves). Life: construct, start(), … stop(). The destructor stops it if it still
// runs. The lane, and the handlers of all batches in it, outlive the pool's threads.
class Pool {
 public:
  static constexpr std::uint32_t kMaxWorkers = 1024;

  explicit Pool(Lane& lane);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Starts `workers` threads (at least 1, at most kMaxWorkers) and makes the pool the lane's executor.
  // `reserved` of them, fewer than all, serve only batches whose jobs are expected to take no longer than a
  // quantum: however many long jobs run, a short one finds a worker. Throws std::invalid_argument outside
  // these bounds.
  void start(std::uint32_t workers, std::uint32_t reserved = 0);

  // Adds workers, or has some leave: each ends the job that it runs, hands back the rest of its claim, and
  // goes. Blocks until those that leave have left. Throws std::invalid_argument outside 1 … kMaxWorkers, or
  // if only reserved ones would be left.
  void set_workers(std::uint32_t workers);
  std::uint32_t workers() const;
  // The lane's quantum, from now on, which is also what the reserved workers call short.
  void set_quantum(Nanoseconds quantum);
  // Whether a worker, not reserved, has nothing to run. A hint, at the cost of one load.
  bool has_free_worker() const;
  // How many of them are reserved. Constant while it runs.
  std::uint32_t reserved() const { return reserved_.load(); }

  // Blocks until nothing is queued or running, or the deadline has passed; true if nothing is. Accepting
  // nothing new meanwhile is the caller's part.
  bool drain(Nanoseconds deadline);

  // Workers end the job that each runs and leave; what is left stays in the ring. Joins them. Running jobs
  // are not asked to hurry (cancel their batches for that). After it no thread of the pool exists.
  void stop();

  // Runs `function` on a worker, in turn with the batches, as a job of the lane's default queue; for single
  // pieces of work from outside. What it throws is swallowed and counted as an error of the default queue's
  // handler.
  void post(std::move_only_function<void(Context&)> function);

  std::vector<WorkerSnapshot> snapshot() const;
  // How often one worker's steal from another got something: pairs that have any. None in a pool of more than
  // 64 workers, where nobody could follow them.
  struct StealPair {
    std::uint32_t thief;
    std::uint32_t victim;
    std::uint64_t steals;
  };
  std::vector<StealPair> steal_pairs() const;

  // The instant (steady clock) at which a worker last ended a piece of work, and whether any has work now:
  // what a health check needs. A pool with work whose `last_progress` stands still is stuck, or runs long
  // jobs.
  struct Progress {
    bool has_work;
    Nanoseconds last_progress;
  };
  Progress progress() const;

 private:
  friend class Worker;
  friend class Monitor;
  class DefaultQueue;

  Worker& slot(std::uint32_t number);
  void resize(std::uint32_t workers);
  static void check_count(std::uint32_t workers, std::uint32_t reserved);
  // Wakes a reserved worker if there is something for it.
  void wake_reserved();

  Lane& lane_;
  const std::unique_ptr<Idle> idle_;
  const std::unique_ptr<Idle> reserved_idle_;  // of the reserved workers, who wake and park among themselves
  std::atomic<std::uint32_t> reserved_{
      0};  // workers [0, reserved_) are; written by start(), constant while the pool runs
  const std::unique_ptr<TaskDepot> depot_;  // outlives the workers, whose tasks lie in it
  std::unique_ptr<DefaultQueue> default_queue_;
  std::unique_ptr<Monitor> monitor_;

  // A slot is filled at most once and emptied only with the pool, so that a thief may look at a victim that
  // has left. Written under mutex_; slot_count_ is published after the slot.
  std::unique_ptr<std::atomic<Worker*>[]> slots_;
  std::atomic<std::uint32_t> slot_count_{0};
  // Slots [0, workers_) have a thread, or are getting or losing it. Written under mutex_.
  std::atomic<std::uint32_t> workers_{0};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> owned_;  // guarded by mutex_
  bool running_ = false;                        // guarded by mutex_
};

}  // namespace locksley
