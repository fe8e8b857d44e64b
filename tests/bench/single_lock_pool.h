// The baseline that the pool is measured against: one queue, one mutex, one condition. The pool
// that most people write first, and that Duffy's article (part 3) compares its work-stealing pool
// with.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace locksley::bench {

class SingleLockPool {
 public:
  explicit SingleLockPool(std::uint32_t workers) {
    for (std::uint32_t i = 0; i < workers; ++i) threads_.emplace_back([this] { run(); });
  }
  ~SingleLockPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void post(std::move_only_function<void()> function) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(function));
    }
    ready_.notify_one();
  }

  // Runs one item if there is one: how a wait passes the time.
  bool run_one() {
    std::unique_lock lock(mutex_);
    if (queue_.empty()) return false;
    auto function = std::move(queue_.back());
    queue_.pop_back();
    lock.unlock();
    function();
    return true;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto function = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      function();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::move_only_function<void()>> queue_;  // guarded by mutex_
  bool stopping_ = false;                              // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace locksley::bench
