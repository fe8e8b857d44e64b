// A gate that jobs of a test wait at.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace locksley::testing {

// Holds each thread that passes until it is opened. Owned by the test, outlives its jobs; any
// thread may call anything. await() fails the test if fewer than `waiting` threads come within 30
// s.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    condition_.notify_all();
    condition_.wait(lock, [this] { return open_; });
  }
  void await(int waiting) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(condition_.wait_for(lock, std::chrono::seconds(30), [&] { return waiting_ >= waiting; }))
        << "jobs at the gate";
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    condition_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  int waiting_ = 0;
  bool open_ = false;
};

}  // namespace locksley::testing
