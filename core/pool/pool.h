// The work-stealing pool: workers that claim jobs from a lane, run them, and steal from each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/lane/lane.h"
#include "core/lane/result_writer.h"
#include "core/pool/worker_stats.h"
#include "core/sync/mutex.h"

namespace locksley {

class Context;
class Idle;
class Monitor;
class TaskDepot;
class Worker;

// The executor of a lane's jobs in this process: a number of worker threads, which may change while
// it runs. It also runs single functions (post()), in turn with the lane's batches.
//
// Owned by the program. Life: construct, start(), … stop(); the destructor calls stop() if needed.
// A lane has one pool at a time.
// The lane, and the handlers of all batches in it, outlive the pool's threads.
// Any thread may call anything, except that the pool's own workers must not call stop(), drain() or
// set_workers(): they would wait for themselves.
// stop(), drain() and set_workers() block, for as long as the jobs take that they wait for. All
// other calls take a mutex for a short time, or none.
// start() and set_workers() throw std::invalid_argument for counts out of bounds, and
// std::system_error if a thread cannot be started: the pool then has the workers that it got.
// Anything else that fails is a bug, and aborts.
class Pool {
 public:
  // A guess: more than most machines have processors. The table of workers takes 8 KiB.
  static constexpr std::uint32_t kMaxWorkers = 1024;

  // From now on the pool is the lane's executor, though nothing runs before start().
  explicit Pool(Lane& lane);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Starts the monitor and `workers` threads (1 to kMaxWorkers). `reserved` of them, fewer than
  // all, serve only batches whose jobs are expected to take no longer than a quantum: so a short
  // job finds a worker while long ones occupy all others.
  void start(std::uint32_t workers, std::uint32_t reserved = 0) LOCKSLEY_EXCLUDES(mutex_);

  // Adds workers, or has some leave. A worker that leaves ends the job that it runs and gives back
  // the rest of its claim. Blocks until all that leave have left. At least one that is not reserved
  // must stay.
  void set_workers(std::uint32_t workers) LOCKSLEY_EXCLUDES(mutex_);
  std::uint32_t workers() const { return workers_.load(); }
  // Sets the lane's quantum, which is also the bound of a short job for the reserved workers. One
  // call at a time, and none beside start().
  void set_quantum(Nanoseconds quantum);
  // How many workers are reserved. Constant while the pool runs.
  std::uint32_t reserved() const { return reserved_.load(); }
  // Whether a worker that is not reserved has nothing to run. A hint, at the cost of one load.
  bool has_free_worker() const;

  // Blocks until nothing is queued or running, or `deadline` has passed. True: nothing is queued or
  // running. The program must have stopped submitting before. Jobs that wait for a retry
  // (BatchStatus::waiting) are not in the lane: it does not wait for them.
  [[nodiscard]] bool drain(Instant deadline);

  // Each worker ends the job that it runs, and leaves; jobs that have not started stay in the lane.
  // Joins all threads of the pool. Does not ask running jobs to stop: to hurry, cancel their
  // batches before.
  void stop() LOCKSLEY_EXCLUDES(mutex_);

  // Runs `function` once, on a worker, in turn with the lane's batches. If `function` throws, the
  // exception goes to the function that on_post_error() has set; without one it ends the process by
  // std::terminate(), as for a std::thread. No exception is dropped.
  void post(std::move_only_function<void(Context&)> function);
  // `function` is called on a worker, perhaps on several at once, and must not throw. Call before
  // the first post().
  void on_post_error(std::function<void(std::exception_ptr)> function);

  // The counters of each worker that has a thread, in the order of their numbers. Each counter is
  // exact; together they are of about one moment.
  std::vector<WorkerSnapshot> snapshot() const;
  // How often each thief stole from each victim, for the pairs with at least one steal. Empty in a
  // pool of more than Worker::kMostVictims workers.
  struct StealPair {
    std::uint32_t thief;
    std::uint32_t victim;
    std::uint64_t steals;
  };
  std::vector<StealPair> steal_pairs() const;

  // The jobs that run, each with the number of its worker: those of batches for which `is_wanted`
  // is true. `since` is when the worker's turn began. A worker between two jobs shows the last one.
  // Takes the mutex of the values that each worker's result writer shows, and so never waits for a
  // publication.
  struct RunningJob {
    std::uint32_t worker = 0;
    ResultWriter::Running job;
  };
  std::vector<RunningJob> running(const std::function<bool(const Batch&)>& is_wanted) const;

  // For a health check: a pool that has work while `last_progress` stands still is stuck, or runs
  // long jobs.
  struct Progress {
    bool has_work;  // jobs are ready, or a worker runs one
    // When a worker last ended a burst of jobs or a turn with sub-jobs; the clock's epoch if none
    // has yet: a check must not take this for a standstill.
    Instant last_progress;
  };
  Progress progress() const;

 private:
  friend class Worker;
  friend class Monitor;
  class DefaultQueue;

  // The worker of this number, among all that were ever started. Needs: number < made_.
  Worker& worker(std::uint32_t number) const { return *table_[number].load(); }
  void resize(std::uint32_t workers) LOCKSLEY_REQUIRES(mutex_);
  // Ends the process if a worker of the pool calls it.
  void check_caller() const;
  static void check_count(std::uint32_t workers, std::uint32_t reserved);
  // Wakes a reserved worker if there is something for it.
  void wake_reserved();

  // Constant.
  Lane& lane_;
  // Common and reserved workers wake and park among themselves.
  const std::unique_ptr<Idle> common_idle_;
  const std::unique_ptr<Idle> reserved_idle_;
  const std::unique_ptr<TaskDepot> depot_;  // outlives the workers, whose tasks lie in it
  std::unique_ptr<DefaultQueue> default_queue_;
  const std::unique_ptr<Monitor> monitor_;

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Worker>> owned_ LOCKSLEY_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ LOCKSLEY_GUARDED_BY(mutex_);  // of the first workers
  std::thread monitor_thread_ LOCKSLEY_GUARDED_BY(mutex_);
  bool running_ LOCKSLEY_GUARDED_BY(mutex_) = false;

  // Written under mutex_, read by any thread.
  // Entries [0, made_) are the workers that were ever started, in the order of their numbers. An
  // entry is written once, before made_ counts it, and stays until the pool's end, so that a thief
  // may visit a victim that has left.
  const std::unique_ptr<std::atomic<Worker*>[]> table_;
  std::atomic<std::uint32_t> made_{0};
  // Workers [0, workers_) have a thread. A worker beyond it may still have one: it is about to be
  // counted, or is about to leave.
  std::atomic<std::uint32_t> workers_{0};
  // Workers [0, reserved_) are reserved. Written by start(); constant while the pool runs.
  std::atomic<std::uint32_t> reserved_{0};
};

}  // namespace locksley
