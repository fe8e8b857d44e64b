// One thread of the pool. Internal to core: programs use core/pool/pool.h and, in handlers,
// core/tasks/context.h and core/tasks/task_group.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/cache_line.h"
#include "core/batch/batch.h"
#include "core/lane/lane.h"
#include "core/lane/result_writer.h"
#include "core/lane/turn.h"
#include "core/pool/worker_stats.h"
#include "core/steal/steal_range.h"
#include "core/sync/adaptive_spin.h"
#include "core/sync/idle.h"
#include "core/sync/thread_role.h"
#include "core/tasks/spawner.h"
#include "core/tasks/task.h"

namespace locksley {

class Context;
class JobContext;
class Pool;

// A worker: its thread, its deque of tasks, its turn, its results, and the loop that looks for
// work. core/README.md describes the loop.
//
// Owned by the pool, from the worker's first start to the pool's end, so that a thief may visit a
// worker that has left. The pool has its thread, too, from start() until it has joined it.
// The functions are grouped by the threads that may call them.
// Nothing that other threads call blocks. start() throws std::system_error if the thread cannot be
// started. An exception of a handler becomes its job's error.
//
// Invariant: a job returns only when all its sub-jobs have ended. While a worker waits, it steals
// sub-jobs of its own batch only. A race may still hand it one of another batch; it then runs that
// sub-job with an empty deque. So a deque never holds tasks of two batches, and it is empty
// whenever its worker is between jobs.
class Worker {
 public:
  Worker(Pool& pool, std::uint32_t number);
  ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // ---- The pool, under its mutex ----

  // The thread. Needs: the earlier one was joined.
  [[nodiscard]] std::thread start();
  // Asks the worker to leave: it ends the job that it runs, gives back the rest of its claim, and
  // its thread returns. The caller wakes it after this.
  void ask_to_leave() { leaving_.store(true); }

  // ---- Any thread ----

  WorkerSnapshot snapshot() const;
  // Only steals from victims with a lower number than this are counted by victim.
  static constexpr std::uint32_t kMostVictims = 64;  // guess: as many as a picture can show
  // How often this worker stole from the worker `victim`. Needs: victim < kMostVictims.
  std::uint64_t steals_from(std::uint32_t victim) const { return steals_from_[victim].get(); }
  std::uint32_t number() const { return number_; }
  // Whether the calling thread is this worker's.
  bool is_own_thread() const { return own_thread_.is_held(); }
  // When it last ended a burst, as an instant of the steady clock.
  Nanoseconds last_progress() const { return Nanoseconds(static_cast<std::int64_t>(last_progress_.get())); }
  // Whether it has a turn, of jobs or of sub-jobs. A hint.
  bool is_busy() const { return turn_began_.get() != 0; }
  // core/lane/result_writer.h says which thread may call which of its functions.
  ResultWriter& writer() { return writer_; }

  // ---- The monitor ----

  // While this is true and bursts_begun() does not change, results wait for a burst to end.
  bool has_unpublished() const { return unpublished_.get() != 0; }
  std::uint64_t bursts_begun() const { return bursts_.get(); }
  // The present burst takes too long: after the running job, the rest of it goes back to the ring.
  void cut_burst() { overdue_.store(true); }

 private:
  // The facts about a claim for a thief that steals from it. The batch lives as long as any of its
  // jobs has not ended.
  struct ClaimTag {
    Batch* batch;
  };
  enum class Found { kSomething, kNothing };

  // ---- Turns (worker.cc) ----

  void run() LOCKSLEY_EXCLUDES(own_thread_);
  // Runs the turn that the worker has claimed, and those that it claims when it settles.
  void run_claims() LOCKSLEY_REQUIRES(own_thread_);
  // Settles the turn, and claims the next unless the worker is to leave. Returns whether there is a
  // next turn.
  bool settle() LOCKSLEY_REQUIRES(own_thread_);
  // From the turn's begin to its leave: runs its jobs until all have ended, the quantum is over, or
  // the worker is to leave.
  void run_turn() LOCKSLEY_REQUIRES(own_thread_);
  void begin_turn() LOCKSLEY_REQUIRES(own_thread_);
  // Sets now_ to the end of the turn, up to which it is charged.
  void leave_turn() LOCKSLEY_REQUIRES(own_thread_);
  // Runs the burst's jobs, and returns how many. Fewer than all if the rest is to go back to the
  // ring; none if the payloads cannot be read now.
  std::uint64_t run_burst(Batch& batch, IndexRange burst) LOCKSLEY_REQUIRES(own_thread_);
  void run_job(Batch& batch, std::uint64_t index, std::string_view payload) LOCKSLEY_REQUIRES(own_thread_);
  // The same where a payload of the burst cannot be read: fetches each by itself, so that only that
  // job fails.
  std::uint64_t run_one_by_one(Batch& batch, IndexRange burst) LOCKSLEY_REQUIRES(own_thread_);
  // Whether the burst ends before its next job.
  bool burst_is_cut(const Batch& batch) const LOCKSLEY_REQUIRES(own_thread_);
  // The job ends as an error: its payload cannot be read.
  void fail_job(std::uint64_t index, std::string_view why) LOCKSLEY_REQUIRES(own_thread_);
  // Whether the turn, which the worker has until `until`, should end at `now`: the quantum is used
  // up, or a batch has arrived and waits.
  bool turn_is_over(Nanoseconds until, Nanoseconds now) const LOCKSLEY_REQUIRES(own_thread_);
  std::uint64_t turn_ns(Nanoseconds now) const;
  ClaimFilter filter() const { return reserved_ ? ClaimFilter::kBrief : ClaimFilter::kAny; }

  // ---- Stealing and parking (worker.cc) ----

  Found steal() LOCKSLEY_REQUIRES(own_thread_);
  Found steal_from(Worker& victim) LOCKSLEY_REQUIRES(own_thread_);
  // Counts a steal of `got` jobs or tasks.
  void count_steal(const Worker& victim, std::uint64_t got) LOCKSLEY_REQUIRES(own_thread_) {
    stats_.steals.add(1);
    stats_.stolen.add(got);
    if (victim.number_ < kMostVictims) steals_from_[victim.number_].add(1);
  }
  bool may_find_work();
  // Passes the heavy barrier if a job of any worker has spawned: the searches that follow see tasks
  // that were published without a barrier.
  void see_tasks();
  void stop_searching() LOCKSLEY_REQUIRES(own_thread_);
  // The set in which this worker parks.
  Idle& own_idle() const;
  std::uint32_t random() LOCKSLEY_REQUIRES(own_thread_);

  // ---- Tasks (worker_tasks.cc) ----

  friend class Spawner;  // wait() and pool_workers()
  // Runs tasks until all of the group have ended. Needs: at least one has not.
  void wait(TaskCount& count, const JobFrame& frame);
  std::uint32_t pool_workers() const;
  void run_stolen_tasks(Worker& victim, Task* task) LOCKSLEY_REQUIRES(own_thread_);
  void run_task(Task* task) LOCKSLEY_REQUIRES(own_thread_);
  // Within a wait: runs a task of another batch, and charges that batch for it.
  void run_task_of_other(Task* task) LOCKSLEY_REQUIRES(own_thread_);
  void wait_for_thieves(TaskCount& count, const JobFrame& frame) LOCKSLEY_REQUIRES(own_thread_);
  Task* steal_task_of(const Batch* batch) LOCKSLEY_REQUIRES(own_thread_);
  bool may_find_task_of(const Batch* batch);
  // Wakes another helper, if there are more tasks of `batch`.
  void forward_wake_up(const Batch* batch);

  // Constant.
  Pool& pool_;
  Lane& lane_;
  Idle& common_idle_;  // of the workers that are not reserved: those that steal and help
  const std::uint32_t number_;
  const ThreadRole own_thread_;  // that of start()

  // Constant while the thread runs: the worker serves only batches of short jobs, and steals
  // nothing.
  bool reserved_ = false;

  // Set by the pool, read by the worker between jobs.
  std::atomic<bool> leaving_{false};
  // Set by the monitor, cleared by the worker before each burst, read between jobs.
  std::atomic<bool> overdue_{false};

  // Shared with thieves and wakers, by their own rules.
  Spawner spawner_;
  StealRange<ClaimTag> range_;
  Idle::Sleeper sleeper_;

  // The worker's own thread.
  alignas(kCacheLine) StealRange<ClaimTag>::Owner own_range_ LOCKSLEY_GUARDED_BY(own_thread_);
  ResultWriter writer_;  // the monitor publishes, too
  Turn turn_ LOCKSLEY_GUARDED_BY(own_thread_);
  // The innermost turn: turn_, or that of run_task_of_other(). It is charged for the code that runs
  // now.
  Turn* paying_ LOCKSLEY_GUARDED_BY(own_thread_) = &turn_;
  std::string scratch_ LOCKSLEY_GUARDED_BY(own_thread_);  // of PayloadSource::fetch()
  // Payloads of the present burst.
  std::unique_ptr<std::string_view[]> views_ LOCKSLEY_GUARDED_BY(own_thread_);
  std::uint64_t random_state_ LOCKSLEY_GUARDED_BY(own_thread_);
  bool searching_ LOCKSLEY_GUARDED_BY(own_thread_) = false;
  AdaptiveSpin spin_ LOCKSLEY_GUARDED_BY(own_thread_);
  std::uint64_t arrivals_ LOCKSLEY_GUARDED_BY(own_thread_) = 0;  // ReadyHints::arrivals() when the turn began
  Nanoseconds now_ LOCKSLEY_GUARDED_BY(own_thread_){};           // the last reading of the clock
  // When the oldest unpublished result came.
  Nanoseconds unpublished_since_ LOCKSLEY_GUARDED_BY(own_thread_){};

  // Written by the worker's own thread, read by any.
  WorkerStats stats_;
  std::array<OwnedCounter, kMostVictims> steals_from_;
  OwnedCounter last_progress_;  // nanoseconds of the steady clock
  OwnedCounter turn_began_;     // instant of the steady clock at which the turn began; 0: no turn
  OwnedCounter bursts_;
  OwnedCounter unpublished_;  // 1 while results may wait behind a job
};

}  // namespace locksley
