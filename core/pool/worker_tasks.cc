// A worker and its sub-jobs: waiting for them, and running stolen tasks.
#include <utility>

#include "core/pool/pool.h"
#include "core/pool/worker.h"
#include "core/tasks/context.h"

namespace locksley {
namespace {

// How often a waiting worker searches for sub-jobs before it parks: for some microseconds, as much
// as parking costs.
constexpr unsigned kLooksBeforePark = 64;

// Lets the other hardware thread of the processor work, in a loop that waits.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

void Spawner::wait(TaskCount& count, const JobFrame& frame) { worker_.wait(count, frame); }

std::uint32_t Spawner::pool_workers() const { return worker_.pool_workers(); }

inline void Worker::run_task(Task* task) {
  TaskCount* const count = task->count;
  {
    Context context(spawner_, *task->frame);
    task->run(*task, context);
  }
  spawner_.free(task);
  stats_.tasks.add(1);
  // The group may be destroyed as soon as this task is counted, so its owner is read before.
  Spawner& owner = count->owner();
  if (&owner == &spawner_) {
    count->finished_by_owner();
  } else if (count->finished()) {
    owner.worker().sleeper_.parker.unpark();
  }
}

void Worker::wait(TaskCount& count, const JobFrame& frame) {
  own_thread_.assume_held();
  do {
    Task* task;
    if (!spawner_.pop(task)) [[unlikely]] {
      wait_for_thieves(count, frame);
      return;
    }
    run_task(task);
  } while (!count.is_done());
}

// The worker's own deque is empty, so the sub-jobs that are still out have been stolen. Meanwhile
// the worker runs other sub-jobs of the same batch, and parks if there are none.
void Worker::wait_for_thieves(TaskCount& count, const JobFrame& frame) {
  unsigned looks = 0;
  bool woken = false;  // it was woken for a task, and no other helper was; it has not taken a task since
  while (!count.is_done()) {
    if (Task * task; spawner_.pop(task)) {
      run_task(task);
      continue;
    }
    if (Task* task = steal_task_of(frame.batch)) {
      if (std::exchange(woken, false)) forward_wake_up(frame.batch);
      task->frame->batch == frame.batch ? run_task(task) : run_task_of_other(task);
      looks = 0;
      continue;
    }
    if (++looks < kLooksBeforePark) {
      relax();
      continue;
    }
    looks = 0;
    common_idle_.enter_help(sleeper_, frame.batch);
    if (count.park_begin()) {
      if (!may_find_task_of(frame.batch)) {
        stats_.parks.add(1);
        sleeper_.parker.park();
      }
      count.park_end();
    }
    if (common_idle_.leave_help(sleeper_)) woken = true;
  }
  if (woken) forward_wake_up(frame.batch);
}

// A helper is woken for one task; the waker may have woken no worker for other tasks, because a
// worker was searching. The helper may also find that its own group is done, and take no task.
void Worker::forward_wake_up(const Batch* batch) {
  if (may_find_task_of(batch)) common_idle_.wake_for_task(batch);
}

bool Worker::may_find_task_of(const Batch* batch) {
  for (std::uint32_t i = 0, count = pool_.made_.load(); i < count; ++i) {
    const Worker& other = pool_.worker(i);
    if (&other != this && other.spawner_.batch() == batch && !other.spawner_.empty()) return true;
  }
  return false;
}

Task* Worker::steal_task_of(const Batch* batch) {
  const std::uint32_t count = pool_.made_.load();
  const std::uint32_t first = random();
  for (std::uint32_t i = 0; i < count; ++i) {
    Worker& victim = pool_.worker((first + i) % count);
    if (&victim == this || victim.spawner_.batch() != batch || victim.spawner_.empty()) continue;
    stats_.steal_attempts.add(1);
    // The victim may have changed to another batch between the check and the steal. Then the task
    // is of that batch. It is run all the same, since it cannot be put back: run_task_of_other().
    if (const auto stolen = victim.spawner_.steal(); stolen.stolen()) {
      count_steal(victim, 1);
      return stolen.value;
    }
  }
  return nullptr;
}

void Worker::run_task_of_other(Task* task) {
  Batch& batch = *task->frame->batch;
  const Batch* const own = spawner_.exchange_batch(&batch);
  Turn turn(lane_);
  Turn& outer = *std::exchange(paying_, &turn);
  turn.join(batch, {});
  turn.begin_at_claim();
  const Nanoseconds began = turn.began();
  run_task(task);
  turn.leave();
  const Nanoseconds now = steady_now();
  stats_.busy_ns.add(static_cast<std::uint64_t>((now - turn.began()).count()));
  turn.settle(now);
  outer.exclude(now - began);
  paying_ = &outer;
  spawner_.exchange_batch(own);
}

void Worker::run_stolen_tasks(Worker& victim, Task* task) {
  Batch& batch = *task->frame->batch;
  arrivals_ = lane_.hints().arrivals();
  turn_.join(batch, {});
  begin_turn();
  const Nanoseconds until = now_ + lane_.quantum();
  for (;;) {
    run_task(task);
    if (spawner_.is_spawning()) spawner_.end();
    // Checked after each task, since a task may be long: a batch that has used a quantum leaves the
    // worker to the ring at once, and not some tasks later.
    if (turn_is_over(until, steady_now())) break;
    const auto stolen = victim.spawner_.batch() == &batch ? victim.spawner_.steal() : Steal<Task*>{};
    stats_.steal_attempts.add(1);
    if (!stolen.stolen()) break;
    count_steal(victim, 1);
    task = stolen.value;
  }
  leave_turn();
  last_progress_.set(static_cast<std::uint64_t>(now_.count()));
  if (settle()) run_claims();
}

}  // namespace locksley
