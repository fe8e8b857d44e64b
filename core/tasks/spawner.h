// A worker's end of its deque of sub-jobs: all that core/tasks/task_group.h needs of a worker.
// Internal to core.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/cache_line.h"
#include "core/steal/deque.h"
#include "core/sync/idle.h"
#include "core/sync/thread_role.h"
#include "core/tasks/task.h"

namespace locksley {

class Batch;
class Worker;

// Spawns sub-jobs on one worker: its deque of tasks, and the memory of the tasks.
//
// A member of its worker, and lives as long. The functions are grouped by the threads that may call
// them. wait() blocks until the group's tasks have ended; nothing else blocks for longer than a
// wake-up. allocate() and push() throw std::bad_alloc.
class Spawner {
 public:
  Spawner(Worker& worker, TaskDepot& depot, Idle& idle)
      : worker_(worker), idle_(idle), own_tasks_(deque_.owner()), memory_(depot) {}
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  // ---- The worker's own thread, on behalf of handlers (core/tasks/task_group.h) ----

  Task* allocate() {
    own_thread_.assume_held();
    return memory_.allocate();
  }
  void free(Task* task) {
    own_thread_.assume_held();
    memory_.free(task);
  }
  // Publishes a task of the running job.
  void push(Task* task) {
    own_thread_.assume_held();
    if (!spawning_) [[unlikely]]
      begin(*task);
    own_tasks_.push(task);
    if (idle_.needs_wake_for_task(own_batch())) [[unlikely]]
      idle_.wake_for_task(own_batch());
  }
  // Runs tasks until all of the group have ended. Needs: at least one has not. Defined with the
  // worker (core/pool/worker_tasks.cc), as is pool_workers().
  void wait(TaskCount& count, const JobFrame& frame);
  std::uint32_t pool_workers() const;

  // ---- The worker's own thread ----

  // The task that was pushed last. False: none is left.
  bool pop(Task*& task) {
    own_thread_.assume_held();
    return own_tasks_.pop(task);
  }
  // Whether the running job has spawned. Then end() comes before the next job.
  bool is_spawning() const {
    own_thread_.assume_held();
    return spawning_;
  }
  // The job that has spawned is over.
  void end();
  // From now on, tasks belong to this batch. Returns the batch of the earlier tasks. Needs:
  // is_spawning(), and no task is left.
  const Batch* exchange_batch(const Batch* batch) {
    own_thread_.assume_held();
    return batch_.exchange(batch);
  }

  // ---- Any thread ----

  Worker& worker() const { return worker_; }
  Steal<Task*> steal() { return deque_.thief().steal(); }
  // Hints.
  std::uint64_t len() const { return deque_.len(); }
  bool empty() const { return deque_.empty(); }
  // The batch that the tasks belong to; null if the running job has spawned none.
  const Batch* batch() const { return batch_.load(); }
  // Whether the running job has spawned; see Worker::stop_searching().
  bool has_spawned() const { return spawns_.load(); }

 private:
  void begin(const Task& task) LOCKSLEY_REQUIRES(own_thread_);
  const Batch* own_batch() const LOCKSLEY_REQUIRES(own_thread_) {
    // [task-batch] relaxed: this thread wrote it.
    return batch_.load(std::memory_order_relaxed);
  }

  // Constant.
  Worker& worker_;
  Idle& idle_;
  const ThreadRole own_thread_;  // never taken, only assumed: the worker's own_thread_ is

  // Written by the worker's own thread, at the first spawn of a job and at the job's end, and the
  // batch by exchange_batch(); read by any. Thieves only compare the batch.
  std::atomic<const Batch*> batch_{nullptr};
  std::atomic<bool> spawns_{false};

  // Shared with thieves, by its own rules.
  Deque<Task*> deque_;

  // The worker's own thread.
  alignas(kCacheLine) Deque<Task*>::Owner own_tasks_ LOCKSLEY_GUARDED_BY(own_thread_);
  TaskMemory memory_ LOCKSLEY_GUARDED_BY(own_thread_);
  bool spawning_ LOCKSLEY_GUARDED_BY(own_thread_) = false;  // spawns_, without the atomic
};

}  // namespace locksley
