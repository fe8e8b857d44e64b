// Tasks: sub-jobs that a handler spawned, the count by which their spawner waits for them, and
// their memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/cache_line.h"
#include "core/sync/atomics.h"
#include "core/sync/mutex.h"

namespace locksley {

class Context;
class TaskCount;
class Spawner;
struct JobFrame;

// A spawned closure, on its way through a deque. Two cache lines; small closures lie inside.
// TaskGroup::spawn() makes it. The worker that runs it destroys it, and re-uses its memory
// (TaskMemory).
struct alignas(kCacheLine) Task {
  static constexpr std::size_t kInlineBytes = 96;

  // Runs the closure and destroys it. Does not throw: an exception of the closure goes to the
  // count.
  void (*run)(Task&, Context&);
  TaskCount* count;
  const JobFrame* frame;
  Task* next;  // in a free list
  alignas(16) std::byte closure[kInlineBytes];

  template <class F>
  void emplace(F&& function);
  // Destroys the closure that emplace<F>() has made, which will not run.
  template <class F>
  void drop();

 private:
  // Whether the closure of an F lies inside.
  template <class Closure>
  static constexpr bool kIsInline = sizeof(Closure) <= kInlineBytes && alignof(Closure) <= 16;
};
static_assert(sizeof(Task) == 128);

// How many tasks of a group are outstanding: the numbers alone. Programs use TaskCount, below.
//
// A member of its group. Spawns and waits belong to the owner's thread; completions come from any
// thread. Completions on the owner's own thread, by far the most where nothing is stolen, cost no
// atomic operation. Nothing blocks and nothing fails.
template <class Atomics>
class BasicTaskCount {
 public:
  BasicTaskCount() = default;
  BasicTaskCount(const BasicTaskCount&) = delete;
  BasicTaskCount& operator=(const BasicTaskCount&) = delete;

  // [owner]
  void spawned() { ++pending_; }
  // [owner]
  bool is_done() const {
    // [task-count] acquire: pairs with the release in finished(); what the tasks wrote is visible
    // to the waiter.
    return pending_ == finished_elsewhere_.load(std::memory_order_acquire);
  }
  // [owner] A task that the owner ran itself has ended.
  void finished_by_owner() { --pending_; }
  // [any other thread] A task has ended. Must be the caller's last access to the group. True if the
  // owner is parked on the group and this was the last task: then the caller must unpark the owner.
  [[nodiscard]] bool finished() {
    // [task-count] acq_rel: release for what the task wrote, pairs with is_done(); acquire so that
    // the last task to finish, whose thread may unpark, comes after the owner's park_begin().
    return finished_elsewhere_.fetch_add(1, std::memory_order_acq_rel) == -1;
  }

  // [owner] From now on finished() counts up to zero, and the call that reaches zero returns true.
  // False: all tasks have finished already, and nothing was begun. Nothing may be spawned until
  // park_end().
  bool park_begin() {
    if (finished_elsewhere_.fetch_sub(pending_) == pending_) {
      finished_elsewhere_.fetch_add(pending_);
      return false;
    }
    return true;
  }
  // [owner] Back to the state before park_begin().
  void park_end() { finished_elsewhere_.fetch_add(pending_); }

 private:
  std::int64_t pending_ = 0;  // owner only: spawned, and not finished by the owner
  // Completions on other threads. While the owner is parked: minus the number that it waits for.
  // Written and read by any thread.
  typename Atomics::template atomic<std::int64_t> finished_elsewhere_{0};
};

// The count of a group whose tasks a worker spawned, and the tasks' first exception.
class TaskCount : public BasicTaskCount<StdAtomics> {
 public:
  explicit TaskCount(Spawner& owner) : owner_(owner) {}
  // The spawner of the worker whose thread owns this count.
  Spawner& owner() const { return owner_; }

  // [any thread] Keeps the first exception. Call before the task is counted as finished.
  void fail(std::exception_ptr exception) {
    if (!failed_.exchange(true)) exception_ = std::move(exception);
  }
  // [owner, when done] Takes it; null if there was none.
  std::exception_ptr take_exception() {
    // [task-count] relaxed: is_done() came before, and with it all that the tasks wrote.
    if (!failed_.load(std::memory_order_relaxed)) [[likely]]
      return nullptr;
    failed_.store(false);
    return std::exchange(exception_, nullptr);
  }

 private:
  Spawner& owner_;
  // Set by the first task that fails, reset by the owner when all are done.
  std::atomic<bool> failed_{false};
  // Written by the task that set failed_, before it is counted as finished; read by the owner when
  // done.
  std::exception_ptr exception_;
};

// The memory of the tasks of one pool, in magazines that workers exchange. So a worker that only
// spawns and one that only runs stolen tasks do not drain or flood each other (Jeff Bonwick and
// Jonathan Adams, "Magazines and Vmem: Extending the Slab Allocator to Many CPUs and Arbitrary
// Resources", 2001).
//
// Owned by the pool; outlives the workers. Any thread. Takes its mutex once a magazine. Tasks are
// never freed before the pool ends, so that a stale pointer to one stays readable. Throws
// std::bad_alloc.
class TaskDepot {
 public:
  static constexpr std::size_t kMagazine = 256;  // a guess: 32 KiB, half of a first-level cache

  TaskDepot() = default;
  ~TaskDepot() {
    for (void* slab : slabs_) ::operator delete(slab, std::align_val_t{alignof(Task)});
  }
  TaskDepot(const TaskDepot&) = delete;
  TaskDepot& operator=(const TaskDepot&) = delete;

  // A list of kMagazine free tasks.
  Task* full_magazine() LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!magazines_.empty()) {
      Task* list = magazines_.back();
      magazines_.pop_back();
      return list;
    }
    void* slab = ::operator new(kMagazine * sizeof(Task), std::align_val_t{alignof(Task)});
    slabs_.push_back(slab);
    auto* bytes = static_cast<std::byte*>(slab);
    Task* list = nullptr;
    for (std::size_t i = kMagazine; i-- > 0;) {
      Task* task = ::new (bytes + i * sizeof(Task)) Task;
      task->next = list;
      list = task;
    }
    return list;
  }
  // Takes back a list of kMagazine free tasks.
  void take_back(Task* magazine) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    magazines_.push_back(magazine);
  }

 private:
  Mutex mutex_;
  std::vector<Task*> magazines_ LOCKSLEY_GUARDED_BY(mutex_);
  std::vector<void*> slabs_ LOCKSLEY_GUARDED_BY(mutex_);
};

// A worker's own share of the task memory: at most two magazines. That worker's thread only.
// allocate() throws std::bad_alloc.
class TaskMemory {
 public:
  explicit TaskMemory(TaskDepot& depot) : depot_(depot) {}

  Task* allocate() {
    if (loaded_ == nullptr) [[unlikely]] {
      if (spare_ != nullptr) {
        loaded_ = std::exchange(spare_, nullptr);
      } else {
        loaded_ = depot_.full_magazine();
      }
      count_ = TaskDepot::kMagazine;
    }
    Task* task = loaded_;
    loaded_ = task->next;
    --count_;
    return task;
  }
  void free(Task* task) {
    if (count_ == TaskDepot::kMagazine) [[unlikely]] {
      if (spare_ != nullptr) depot_.take_back(spare_);
      spare_ = std::exchange(loaded_, nullptr);
      count_ = 0;
    }
    task->next = loaded_;
    loaded_ = task;
    ++count_;
  }

 private:
  TaskDepot& depot_;
  Task* loaded_ = nullptr;
  std::size_t count_ = 0;  // of loaded_
  Task* spare_ = nullptr;  // full, or null
};

template <class F>
void Task::emplace(F&& function) {
  using Closure = std::decay_t<F>;
  if constexpr (kIsInline<Closure>) {
    ::new (static_cast<void*>(closure)) Closure(std::forward<F>(function));
    run = [](Task& task, Context& context) {
      auto* held = std::launder(reinterpret_cast<Closure*>(task.closure));
      try {
        (*held)(context);
      } catch (...) {
        task.count->fail(std::current_exception());
      }
      held->~Closure();
    };
  } else {
    ::new (static_cast<void*>(closure)) Closure*(new Closure(std::forward<F>(function)));
    run = [](Task& task, Context& context) {
      auto* held = *std::launder(reinterpret_cast<Closure**>(task.closure));
      try {
        (*held)(context);
      } catch (...) {
        task.count->fail(std::current_exception());
      }
      delete held;
    };
  }
}

template <class F>
void Task::drop() {
  using Closure = std::decay_t<F>;
  if constexpr (kIsInline<Closure>) {
    std::launder(reinterpret_cast<Closure*>(closure))->~Closure();
  } else {
    delete *std::launder(reinterpret_cast<Closure**>(closure));
  }
}

}  // namespace locksley
