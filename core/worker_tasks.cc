// A worker and the sub-jobs: spawning, waiting, and running what it stole.
#include <utility>

#include "core/context.h"
#include "core/pool.h"
#include "core/worker.h"

namespace locksley {
namespace {

// Looks for sub-jobs to run before a waiting worker parks: some microseconds, as much as parking costs.
constexpr unsigned kLooksBeforePark = 64;

// A busy-waiting loop's way to let the processor's other thread work.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

void Worker::begin_spawning(const Task& task) {
  spawning_ = true;
  task_batch_.store(task.frame->batch);
  spawns_.store(true);
  // Sequentially consistent, so that no later look at the state, be it weaker, comes before the flag: who
  // ends the search that such a look has seen sees the flag.
  (void)idle_.anybody_parked();
}

void Worker::end_spawning() {
  spawning_ = false;
  spawns_.store(false);
  task_batch_.store(nullptr);
}

inline void Worker::run_task(Task* task) {
  TaskCount* const count = task->count;
  {
    Context context(*this, *task->frame);
    task->run(*task, context);
  }
  tasks_.free(task);
  stats_.tasks.add(1);
  // The group may be gone as soon as this task is counted, so its owner is looked up before.
  Worker& owner = count->owner();
  if (&owner == this) {
    count->finished_by_owner();
  } else if (count->finished()) {
    owner.sleeper_.parker.unpark();
  }
}

void Worker::wait(TaskCount& count, const JobFrame& frame) {
  do {
    Task* task;
    if (!own_tasks_.pop(task)) [[unlikely]] {
      wait_for_thieves(count, frame);
      return;
    }
    run_task(task);
  } while (!count.is_done());
}

// The own deque is empty: what is still out has been stolen, so the worker helps with other sub-jobs of the
// same batch meanwhile, and parks where there are none.
void Worker::wait_for_thieves(TaskCount& count, const JobFrame& frame) {
  unsigned looks = 0;
  bool woken = false;  // for a task, so that no other helper was; and has taken none since
  while (!count.is_done()) {
    if (Task * task; own_tasks_.pop(task)) {
      run_task(task);
      continue;
    }
    if (Task* task = steal_task_of(frame.batch)) {
      if (std::exchange(woken, false)) pass_wake_up_on(frame.batch);
      run_task(task);
      looks = 0;
      continue;
    }
    if (++looks < kLooksBeforePark) {
      relax();
      continue;
    }
    looks = 0;
    idle_.enter_help(sleeper_, frame.batch);
    if (count.park_begin()) {
      if (!may_find_task_of(frame.batch)) {
        stats_.parks.add(1);
        sleeper_.parker.park();
      }
      count.park_end();
    }
    if (idle_.leave_help(sleeper_)) woken = true;
  }
  if (woken) pass_wake_up_on(frame.batch);
}

// A helper is woken for one task, by whoever may have kept quiet about others while somebody searched; and it
// may be done, and take none.
void Worker::pass_wake_up_on(const Batch* batch) {
  if (may_find_task_of(batch)) idle_.wake_for_task(batch);
}

bool Worker::may_find_task_of(const Batch* batch) {
  for (std::uint32_t i = 0, count = pool_.slot_count_.load(); i < count; ++i) {
    const Worker& other = pool_.slot(i);
    if (&other != this && other.task_batch_.load() == batch && !other.deque_.empty()) return true;
  }
  return false;
}

Task* Worker::steal_task_of(const Batch* batch) {
  const std::uint32_t count = pool_.slot_count_.load();
  const std::uint32_t first = random();
  for (std::uint32_t i = 0; i < count; ++i) {
    Worker& victim = pool_.slot((first + i) % count);
    if (&victim == this || victim.task_batch_.load() != batch || victim.deque_.empty()) continue;
    stats_.steal_attempts.add(1);
    // The victim may have gone over to another batch between the look and the steal. Then this is one of that
    // batch's tasks: it is run all the same, since it cannot be put back; this worker's own deque is empty,
    // so the invariant holds.
    if (const auto stolen = victim.deque_.thief().steal(); stolen.stolen()) {
      count_steal(victim, 1);
      return stolen.value;
    }
  }
  return nullptr;
}

void Worker::run_stolen_tasks(Worker& victim, Task* task) {
  Batch& batch = *task->frame->batch;
  arrivals_ = lane_.ring().arrivals();
  const Charge charge = lane_.ring().join(batch.ring_queue(), steady_now());
  const Nanoseconds began = steady_now();
  turn_began_.set(static_cast<std::uint64_t>(began.count()));
  batch.executor_joined();
  const Nanoseconds until = began + lane_.quantum();
  for (;;) {
    run_task(task);
    if (spawning_) end_spawning();
    // Looked at after each task, since a task may be long: a batch that has used a quantum leaves the worker
    // to the ring then, and not some tasks later.
    if (turn_is_over(began, until, steady_now())) break;
    const auto stolen = victim.task_batch_.load() == &batch ? victim.deque_.thief().steal() : Steal<Task*>{};
    stats_.steal_attempts.add(1);
    if (!stolen.stolen()) break;
    count_steal(victim, 1);
    task = stolen.value;
  }
  now_ = steady_now();
  last_progress_.set(static_cast<std::uint64_t>(now_.count()));
  stats_.busy_ns.add(static_cast<std::uint64_t>((now_ - began).count()));
  turn_began_.set(0);
  batch.executor_left();
  const Settlement settlement{.charged = charge, .actual = now_ - began};
  if (const auto next = settle(batch, settlement)) run_claims(*next);
}

}  // namespace locksley
