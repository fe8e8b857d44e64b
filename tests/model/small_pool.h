// A pool in small, whose workers do what those of the real one do about looking for work, parking
// and waking.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/steal/deque.h"
#include "core/sync/idle.h"
#include "core/tasks/task.h"
#include "tests/model/atomics.h"
#include "tests/model/explorer.h"

namespace locksley::model {

using ModelIdle = BasicIdle<ModelAtomics>;
using ModelCount = BasicTaskCount<ModelAtomics>;

// What may be left out, to show that the explorer notices.
struct Rules {
  bool barrier_to_park = true;       // before the last look, where tasks are about
  bool last_look = true;             // between enter_park() or enter_help() and parking
  bool look_after_search = true;     // by the last searcher
  bool barrier_after_search = true;  // before that look, where tasks are about
  bool look_before_tasks = true;     // at the state, between the flag that says so and the first task
  bool pass_on = true;               // a helper's wake-up, if there is more than the helper takes
  bool end_search_to_leave = true;   // by a worker that leaves
};

// A pool in small: a ring of two places for jobs, and one spawner with a deque of tasks, of one
// batch. To run a job or a task is to count it, and then to wait until `taken_at_once` have been
// counted: work that takes long.
class Pool {
 public:
  explicit Pool(const Rules& given = {}) : rules(given) { idle.set_workers(2); }

  // Publishes a job. As the thread that submits.
  void submit(std::size_t place) {
    ++published;
    jobs[place].store(true);
    idle.notify();
  }

  // Publishes a task. As Worker::push().
  void spawn() {
    ++published;
    if (!spawning) begin_spawning();
    own_tasks.push(1);
    if (idle.needs_wake_for_task(this)) idle.wake_for_task(this);
  }

  // As Spawner::begin().
  void begin_spawning() {
    spawning = true;
    spawns.store(true);
    if (rules.look_before_tasks) (void)idle.has_parked_worker();
  }

  bool claim() {
    for (std::size_t place = 0; place < places; ++place) {
      if (jobs[place].exchange(false)) return true;
    }
    return false;
  }

  bool steal() { return spawner && !tasks.empty() && tasks.thief().steal().stolen(); }

  // As Worker::may_find_task_of().
  bool may_find_task() const { return spawner && !tasks.empty(); }

  // As Worker::may_find_work().
  bool may_find_work() const {
    for (std::size_t place = 0; place < places; ++place) {
      if (jobs[place].load()) return true;
    }
    return may_find_task();
  }

  void run_one() {
    ++taken;
    Explorer::wait([this] { return taken >= taken_at_once; });
  }

  bool all_taken() const { return taken == published; }

  const Rules rules;
  // What there is of it, so that no worker searches without need: each operation multiplies the
  // interleavings.
  std::size_t places = 0;
  bool spawner = false;
  int taken_at_once = 0;
  int published = 0;
  int taken = 0;

  ModelIdle idle;
  std::array<Atomic<bool>, 2> jobs;
  Atomic<bool> spawns;
  Deque<std::uint64_t, ModelAtomics> tasks{4};
  // The spawner's.
  Deque<std::uint64_t, ModelAtomics>::Owner own_tasks{tasks.owner()};
  bool spawning = false;
};

// Does what a worker does about parking, in the words of core/pool/worker.cc and
// core/pool/worker_tasks.cc.
class Worker {
 public:
  explicit Worker(Pool& pool, bool may_leave = false) : pool_(pool), may_leave_(may_leave) {}

  // As Worker::run().
  void run() {
    while (!leaves()) {
      if (pool_.claim()) {
        stop_searching();
        pool_.run_one();
        continue;
      }
      if (!searching_) searching_ = pool_.idle.try_search();
      if (searching_ && pool_.steal()) {
        stop_searching();
        pool_.run_one();
        continue;
      }
      const bool was_searching = std::exchange(searching_, false);
      pool_.idle.enter_park(sleeper_, was_searching ? ModelIdle::From::kSearching : ModelIdle::From::kActive);
      if (pool_.rules.barrier_to_park) see_tasks();
      if (pool_.rules.last_look && (leaves() || pool_.may_find_work())) {
        pool_.idle.leave_park(sleeper_);
      } else {
        sleeper_.parker.park();
        pool_.idle.return_from_park(sleeper_);
      }
      searching_ = true;
    }
    if (pool_.rules.end_search_to_leave) stop_searching();
    left_ = true;
  }

  // As Worker::wait_for_thieves(), but for the number of looks before it parks.
  void wait(ModelCount& count) {
    bool woken = false;
    while (!count.is_done()) {
      if (pool_.steal()) {
        if (std::exchange(woken, false)) pass_on();
        pool_.run_one();
        continue;
      }
      pool_.idle.enter_help(sleeper_, &pool_);
      if (count.park_begin()) {
        if (!pool_.rules.last_look || !pool_.may_find_task()) sleeper_.parker.park();
        count.park_end();
      }
      if (pool_.idle.leave_help(sleeper_)) woken = true;
    }
    if (woken) pass_on();
  }

  // As the end of a task of this worker's that another worker has run.
  void finish_for(ModelCount& count) {
    if (count.finished()) unpark();
  }

  void unpark() { sleeper_.parker.unpark(); }
  // As Pool::set_workers().
  void ask_to_leave() {
    leaving_.store(true);
    pool_.idle.wake_all();
  }
  bool has_left() const { return left_; }
  void begin_search() { searching_ = pool_.idle.try_search(); }

 private:
  // As Worker::stop_searching().
  void stop_searching() {
    if (!std::exchange(searching_, false)) return;
    if (!pool_.idle.end_search() || !pool_.idle.has_parked_worker()) return;
    if (!pool_.rules.look_after_search) return;
    if (pool_.rules.barrier_after_search) see_tasks();
    if (pool_.may_find_task()) pool_.idle.wake_for_task(&pool_);
    if (pool_.may_find_work()) pool_.idle.notify();
  }

  // As Worker::see_tasks().
  void see_tasks() {
    if (pool_.spawner && pool_.spawns.load()) Barrier::heavy();
  }

  void pass_on() {
    if (pool_.rules.pass_on && pool_.may_find_task()) pool_.idle.wake_for_task(&pool_);
  }

  // A load of the flag costs an operation, so it is left out where no worker leaves.
  bool leaves() const { return may_leave_ && leaving_.load(); }

  Pool& pool_;
  const bool may_leave_;
  Atomic<bool> leaving_;
  bool left_ = false;
  ModelIdle::Sleeper sleeper_;
  bool searching_ = false;
};

// A count that never reaches zero: the worker that waits for it helps for ever.
class EndlessCount : public ModelCount {
 public:
  EndlessCount() { spawned(); }
};

// Explores: right if all that was published is taken, whichever worker sleeps then.
inline bool all_is_taken(Explorer& explorer, Pool& pool, std::vector<std::function<void()>> bodies) {
  explorer.run(std::move(bodies), [&pool] { return pool.all_taken(); });
  return pool.all_taken();
}

}  // namespace locksley::model
