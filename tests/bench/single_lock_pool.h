// The baseline that the pool is measured against: one queue, one mutex, one condition. The pool
// that most people write first, and that Duffy's article (part 3) compares its work-stealing pool
// with.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "core/sync/mutex.h"

namespace locksley::bench {

class SingleLockPool {
 public:
  explicit SingleLockPool(std::uint32_t workers) {
    for (std::uint32_t i = 0; i < workers; ++i) threads_.emplace_back([this] { run(); });
  }
  ~SingleLockPool() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void post(std::move_only_function<void()> function) {
    {
      const MutexLock lock(mutex_);
      queue_.push_back(std::move(function));
    }
    ready_.notify_one();
  }

  // Runs one item if there is one: how a wait passes the time.
  bool run_one() {
    MutexLock lock(mutex_);
    if (queue_.empty()) return false;
    auto function = std::move(queue_.back());
    queue_.pop_back();
    lock.unlock();
    function();
    return true;
  }

 private:
  void run() {
    MutexLock lock(mutex_);
    for (;;) {
      while (!stopping_ && queue_.empty()) ready_.wait(mutex_);
      if (queue_.empty()) return;
      auto function = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      function();
      lock.lock();
    }
  }

  Mutex mutex_;
  CondVar ready_;
  std::deque<std::move_only_function<void()>> queue_ LOCKSLEY_GUARDED_BY(mutex_);
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace locksley::bench
