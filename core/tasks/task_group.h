// Sub-jobs: how a handler splits its job among the workers of the pool. Parallel loops:
// core/tasks/parallel_for.h.
#pragma once

#include <exception>
#include <utility>

#include "core/tasks/context.h"
#include "core/tasks/spawner.h"
#include "core/tasks/task.h"

namespace locksley {

// Sub-jobs of one job, and the wait for them.
//
// On the stack of the code that spawns and waits; only that thread calls it. The destructor waits,
// so a sub-job may refer to anything that outlives the group.
// wait() and the destructor block until all sub-jobs have ended, and run sub-jobs meanwhile: also
// those of other jobs of the batch. So do not hold a lock over either if any sub-job of the batch
// may take it: such a sub-job may run on the thread that waits with the lock, and then waits for
// itself. The time of these sub-jobs counts against the time limit of the job that waits.
// What a sub-job throws is thrown again by wait(); the destructor drops it. spawn() throws what the
// copy of the closure throws, and std::bad_alloc; then the sub-job will not run.
class TaskGroup {
 public:
  explicit TaskGroup(Context& context) : context_(context), count_(context.spawner()) {}
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Pushes `function(Context&)` onto this worker's deque. wait() runs it, last in first out, unless
  // a thief takes it before, oldest first. It runs for the same job: same batch, tenant, trace,
  // cancellation and time limit. Does not allocate for closures of up to Task::kInlineBytes.
  template <class F>
  void spawn(F&& function);

  // Runs sub-jobs of this group, or others of the same batch, until all of this group have ended.
  // Parks the worker only while there are none to run. Throws the first exception of a sub-job
  // again.
  void wait();

 private:
  Context& context_;
  TaskCount count_;
};

template <class F>
void TaskGroup::spawn(F&& function) {
  Spawner& spawner = context_.spawner();
  Task* task = spawner.allocate();
  task->count = &count_;
  task->frame = &context_.frame();
  try {
    task->emplace(std::forward<F>(function));
  } catch (...) {
    spawner.free(task);
    throw;
  }
  try {
    spawner.push(task);
  } catch (...) {
    task->drop<F>();
    spawner.free(task);
    throw;
  }
  // Counted after the push: a thief that has already ended it was counted separately.
  count_.spawned();
}

inline TaskGroup::~TaskGroup() {
  if (!count_.is_done()) context_.spawner().wait(count_, context_.frame());
}

inline void TaskGroup::wait() {
  if (!count_.is_done()) context_.spawner().wait(count_, context_.frame());
  if (auto exception = count_.take_exception()) std::rethrow_exception(std::move(exception));
}

}  // namespace locksley
