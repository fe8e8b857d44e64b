// One thread of the pool. Internal to core: programs use core/pool.h and, in handlers, core/context.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "core/adaptive_spin.h"
#include "core/batch.h"
#include "core/deque.h"
#include "core/idle.h"
#include "core/lane.h"
#include "core/result_writer.h"
#include "core/steal_range.h"
#include "core/task.h"
#include "core/worker_stats.h"

namespace locksley {

class Context;
class JobContext;
class Pool;

// A worker: its deque of tasks, its claim, its results, and the loop that looks for work. core/README.md
// tells its life.
//
// Owned by the pool from its first start to the pool's end, so that a thief may look at one that has left;
// its thread comes and goes. Members are grouped by who may touch them. An invariant that much rests on: a
// job returns only when all its sub-jobs have ended, and while a worker waits it runs sub-jobs of the same
// batch only. So a deque never holds tasks of two batches, and is empty whenever its worker is between jobs.
class Worker {
 public:
  Worker(Pool& pool, std::uint32_t number);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // ---- The pool, under its mutex ----

  void start();
  // Asks it to leave: it ends its job, hands back its claim, and its thread returns. Wake it after this.
  void ask_to_leave() { leaving_.store(true); }
  void join();

  // ---- Any thread ----

  WorkerSnapshot snapshot() const;
  // Steals that got something, by victim; of those with a small number only.
  static constexpr std::uint32_t kMostVictims = 64;  // guess: as many as a picture can show
  std::uint64_t steals_from(std::uint32_t victim) const { return steals_from_[victim].get(); }
  std::uint32_t number() const { return number_; }
  // Pieces of claims that it has begun: a number that stands still while has_unpublished() means that results
  // wait for the piece to end.
  std::uint64_t pieces_begun() const { return pieces_.get(); }
  // The piece that it runs takes too long: the rest of it is to go back to the ring. For the monitor.
  void cut_piece() { overdue_.store(true); }
  Nanoseconds last_progress() const { return Nanoseconds(static_cast<std::int64_t>(last_progress_.get())); }
  bool is_busy() const { return turn_began_.get() != 0; }
  bool has_unpublished() const { return unpublished_.get() != 0; }
  ResultWriter& writer() { return writer_; }

  // ---- Its own thread, on behalf of handlers ----

  Task* allocate_task() { return tasks_.allocate(); }
  void free_task(Task* task) { tasks_.free(task); }
  // Publishes a task of the job that runs.
  void push(Task* task) {
    if (!spawning_) [[unlikely]]
      begin_spawning(*task);
    own_tasks_.push(task);
    if (idle_.somebody_wants_task()) [[unlikely]]
      idle_.wake_for_task(task_batch());
  }
  // Runs tasks until all of the group, at least one of which is out, have ended.
  void wait(TaskCount& count, const JobFrame& frame);
  std::uint32_t pool_workers() const;

 private:
  // What a thief must know of a claim that it steals from. The batch lives as long as any of its jobs has not
  // ended.
  struct ClaimTag {
    Batch* batch;
  };
  enum class Found { something, nothing };

  void run();
  void run_claims(Claim claim);
  // Settles a turn and claims the next, unless the worker is to leave.
  std::optional<Claim> settle(Batch& batch, const Settlement& settlement);
  std::uint64_t turn_ns(Nanoseconds now) const;
  ClaimFilter filter() const { return reserved_ ? ClaimFilter::brief : ClaimFilter::any; }
  // Runs the jobs of a turn until they have ended, the quantum is over, or the worker is to leave; returns
  // the account.
  Settlement run_turn(Batch& batch, IndexRange range, const Charge& charge);
  // Runs the piece's jobs, at least the first; returns how many. Fewer than all, if the rest should go back
  // to the ring.
  std::uint64_t run_piece(Batch& batch, IndexRange piece);
  void run_job(Batch& batch, std::uint64_t index, std::string_view payload);
  void fail_piece(IndexRange piece, std::string_view why);
  void after_publication(Batch& batch, ResultWriter::Outcome outcome);
  // Whether a turn that began at `began` should end at `now`: the quantum is used up, or somebody new waits.
  bool turn_is_over(Nanoseconds began, Nanoseconds until, Nanoseconds now) const;
  Found steal();
  Found steal_from(Worker& victim);
  // A steal that got so many jobs or tasks.
  void count_steal(const Worker& victim, std::uint64_t got) {
    stats_.steals.add(1);
    stats_.stolen.add(got);
    if (victim.number_ < kMostVictims) steals_from_[victim.number_].add(1);
  }
  void run_stolen_tasks(Worker& victim, Task* task);
  void run_task(Task* task);
  void wait_for_thieves(TaskCount& count, const JobFrame& frame);
  void begin_spawning(const Task& task);
  void end_spawning();
  const Batch* task_batch() const {
    // [task-batch] relaxed: this thread wrote it.
    return task_batch_.load(std::memory_order_relaxed);
  }
  Task* steal_task_of(const Batch* batch);
  bool may_find_work();
  bool may_find_task_of(const Batch* batch);
  void pass_wake_up_on(const Batch* batch);
  void stop_searching();
  std::uint32_t random();

  // Constant.
  Pool& pool_;
  Lane& lane_;
  Idle& idle_;
  const std::uint32_t number_;

  // The pool, under its mutex.
  std::thread thread_;
  bool reserved_ = false;  // serves batches of short jobs only, and steals nothing

  // Set by the pool, read by the worker between jobs.
  std::atomic<bool> leaving_{false};
  // Set by the monitor, cleared by the worker before each piece, read between jobs.
  std::atomic<bool> overdue_{false};
  // The batch that its tasks belong to. Written by the worker; thieves only compare it.
  std::atomic<const Batch*> task_batch_{nullptr};
  // Whether the job that it runs has spawned tasks. Written by the worker, at the first spawn and at the
  // job's end; see stop_searching().
  std::atomic<bool> spawns_{false};

  Deque<Task*> deque_;
  StealRange<ClaimTag> range_;
  Idle::Sleeper sleeper_;

  // The worker's thread only, from here on.
  alignas(kCacheLine) Deque<Task*>::Owner own_tasks_;
  StealRange<ClaimTag>::Owner own_range_;
  TaskMemory tasks_;
  ResultWriter writer_;
  std::string scratch_;                        // of PayloadSource::fetch()
  std::unique_ptr<std::string_view[]> views_;  // payloads of the piece that is run
  std::uint64_t random_state_;
  bool searching_ = false;
  AdaptiveSpin spin_;
  bool spawning_ = false;            // spawns_, without the atomic
  std::uint64_t arrivals_ = 0;       // FairRing::arrivals() when the turn began
  Nanoseconds now_{};                // the last reading of the clock
  Nanoseconds unpublished_since_{};  // of the oldest result not published

  // Written by the worker's thread, read by any.
  WorkerStats stats_;
  std::array<OwnedCounter, kMostVictims> steals_from_;  // the same
  OwnedCounter last_progress_;                          // nanoseconds of the steady clock
  OwnedCounter turn_began_;  // steady instant at which its turn began; 0: it runs none
  OwnedCounter pieces_;
  OwnedCounter unpublished_;  // 1 while results may wait behind a job
};

}  // namespace locksley
