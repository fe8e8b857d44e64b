// Tasks: sub-jobs that a handler spawned, and the count by which their spawner waits for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/atomics.h"

namespace locksley {

class Context;
class TaskCount;
class Worker;
struct JobFrame;

// A spawned closure, on its way through a deque. Two cache lines; small closures lie inside. Made by a spawn,
// destroyed by whoever runs it, its memory then re-used by that worker (core/task.h, TaskMemory).
struct alignas(64) Task {
  static constexpr std::size_t kInlineBytes = 96;

  // Runs the closure and destroys it. Does not throw: what the closure throws goes to the count.
  void (*run)(Task&, Context&);
  TaskCount* count;
  const JobFrame* frame;
  Task* next;  // in a free list
  alignas(16) std::byte closure[kInlineBytes];

  template <class F>
  void emplace(F&& function);
};
static_assert(sizeof(Task) == 128);

// How many tasks of a group are still out: the numbers alone. Spawns and waits happen on the owner's thread;
// completions anywhere. Completions on the owner's own thread, by far the most where nothing is stolen, cost
// no atomic operation. Programs use TaskCount, below.
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
    // [task-count] acquire: pairs with the release in finished(); what the tasks wrote is visible to whoever
    // waited.
    return pending_ == finished_elsewhere_.load(std::memory_order_acquire);
  }
  // [owner] A task that the owner ran itself has ended.
  void finished_by_owner() { --pending_; }
  // [any other thread] A task has ended. Must be the caller's last touch of the group: true if the owner is
  // parked on it and this was what it waits for, so that it must be unparked.
  [[nodiscard]] bool finished() {
    // [task-count] acq_rel: release for what the task wrote, pairs with is_done(); acquire so that the last
    // to finish, which may unpark, is after the owner's park_begin().
    return finished_elsewhere_.fetch_add(1, std::memory_order_acq_rel) == -1;
  }

  // [owner] From now on finished() counts up to zero, and the one that reaches it returns true. False: all
  // are done already, and nothing was begun. Nothing may be spawned in between.
  bool park_begin() {
    if (finished_elsewhere_.fetch_sub(pending_) == pending_) {
      finished_elsewhere_.fetch_add(pending_);
      return false;
    }
    return true;
  }
  // [owner] Whether all have finished since park_begin().
  bool park_is_done() const { return finished_elsewhere_.load() == 0; }
  // [owner] Back to the state before park_begin().
  void park_end() { finished_elsewhere_.fetch_add(pending_); }

 private:
  std::int64_t pending_ = 0;  // owner only: spawned, and not finished by the owner
  // Completions on other threads. While the owner is parked: minus the number that it waits for.
  typename Atomics::template atomic<std::int64_t> finished_elsewhere_{0};
};

// The count of a group whose tasks a worker spawned, and what they threw.
class TaskCount : public BasicTaskCount<StdAtomics> {
 public:
  explicit TaskCount(Worker& owner) : owner_(owner) {}
  // Whose thread owns this count. Constant.
  Worker& owner() const { return owner_; }

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
  Worker& owner_;
  // Set by the first that fails, reset by the owner when done.
  std::atomic<bool> failed_{false};
  // Written by the one that set failed_, before it is counted as finished; read by the owner when done.
  std::exception_ptr exception_;
};

// Memory of tasks for one pool: magazines that workers exchange (Bonwick and Adams 2001), so that a worker
// which only spawns and one which only runs stolen tasks do not drain or flood each other. Tasks are never
// freed before the pool: a stale pointer to one stays readable.
class TaskDepot {
 public:
  static constexpr std::size_t kMagazine = 256;  // a guess: 32 KiB, half of a first-level cache

  TaskDepot() = default;
  ~TaskDepot() {
    for (void* slab : slabs_) ::operator delete(slab, std::align_val_t{alignof(Task)});
  }
  TaskDepot(const TaskDepot&) = delete;
  TaskDepot& operator=(const TaskDepot&) = delete;

  // A list of kMagazine free tasks. Any thread.
  Task* full_magazine() {
    const std::lock_guard lock(mutex_);
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
  void take_back(Task* magazine) {
    const std::lock_guard lock(mutex_);
    magazines_.push_back(magazine);
  }

 private:
  std::mutex mutex_;
  std::vector<Task*> magazines_;  // guarded by mutex_
  std::vector<void*> slabs_;      // guarded by mutex_
};

// A worker's own share of the task memory. Its thread only.
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
  if constexpr (sizeof(Closure) <= kInlineBytes && alignof(Closure) <= 16) {
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

}  // namespace locksley
