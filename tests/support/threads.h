// Threads of a test that start at the same moment, and waits that end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <thread>
#include <vector>

namespace locksley::testing {

// Runs body(0) … body(count - 1), each on a thread of its own, released together; returns when all
// have ended.
template <class Body>
void run_together(std::size_t count, Body body) {
  std::latch start(static_cast<std::ptrdiff_t>(count));
  std::vector<std::jthread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&start, &body, i] {
      start.arrive_and_wait();
      body(i);
    });
  }
}

// A pause too short for the clock, to shift threads against each other.
inline void spin(std::uint64_t turns) {
  volatile std::uint64_t sink = 0;
  for (std::uint64_t i = 0; i < turns; ++i) {
    sink = sink + i;
  }
}

// The end of a stress test's run, checked by loops that would otherwise never look at a clock.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds after) : end_(std::chrono::steady_clock::now() + after) {}

  bool passed() const { return std::chrono::steady_clock::now() >= end_; }

 private:
  std::chrono::steady_clock::time_point end_;
};

// A wait that must end: call it on each turn of a loop that waits for other threads. It lets them
// run, and ends the test program with a message once 60 s (a guess: far longer than any of them
// takes) are over.
class Patience {
 public:
  explicit Patience(const char* what) : what_(what) {}

  void wait() {
    if (deadline_.passed()) {
      std::fprintf(stderr, "gave up waiting for: %s\n", what_);
      std::abort();
    }
    std::this_thread::yield();
  }

 private:
  const char* what_;
  Deadline deadline_{std::chrono::seconds(60)};
};

}  // namespace locksley::testing
