#include "core/tasks/spawner.h"

#include "core/tasks/context.h"

namespace locksley {

void Spawner::begin(const Task& task) {
  spawning_ = true;
  batch_.store(task.frame->batch);
  spawns_.store(true);
  // Sequentially consistent, so that no later read of the state, even a weaker one, comes before
  // the flag: a searcher seen by that read sees the flag when it ends its search.
  (void)idle_.has_parked_worker();
}

void Spawner::end() {
  own_thread_.assume_held();
  spawning_ = false;
  spawns_.store(false);
  batch_.store(nullptr);
}

}  // namespace locksley
