// A plugin over core/plugin_cxx.h: what C++ adds. The payload says what to do.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin_cxx.h"

namespace {

using locksley::plugin::Context;
using locksley::plugin::IndexRange;
using locksley::plugin::Job;
using locksley::plugin::Setup;
using locksley::plugin::StopReason;
using locksley::plugin::TaskGroup;

struct Flood {
  int height;
};

std::uint64_t fib(Context& context, std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t first = 0;
  TaskGroup group(context);
  group.spawn([&first, n](Context& there) { first = fib(there, n - 1); });
  const std::uint64_t second = fib(context, n - 2);
  group.wait();
  return first + second;
}

// A closure that cannot be copied as bytes, and one that is too large: both are allocated, run once
// and freed.
void large_closures(Job& job) {
  const auto shared = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::array<std::uint64_t, 100> numbers{};
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{1});
  TaskGroup group(job);
  for (int i = 0; i < 10; ++i) group.spawn([shared](Context&) { shared->fetch_add(1); });
  group.spawn([numbers, &shared](Context&) {
    shared->fetch_add(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}));
  });
  group.wait();
  job.write(std::to_string(shared->load()) + " " + std::to_string(shared.use_count()));
}

// An exception keeps its type between a sub-job and the thread that waits; the group can be used
// afterwards.
void flood_below(Job& job) {
  TaskGroup group(job);
  std::atomic<int> ended{0};
  for (int i = 0; i < 100; ++i) {
    group.spawn([i, &ended](Context&) {
      ++ended;
      if (i % 10 == 3) throw Flood{7};
    });
  }
  try {
    group.wait();
    job.write("dry");
  } catch (const Flood& flood) {
    job.write("flood " + std::to_string(flood.height) + " after " + std::to_string(ended.load()));
  }
  group.spawn([&ended](Context&) { ++ended; });
  group.wait();
  job.write(", then " + std::to_string(ended.load()));
}

// The three kinds of bodies, and a loop in a loop.
void loops(Job& job) {
  std::vector<std::atomic<int>> marks(1000);
  job.parallel_for(0, 1000, [&](std::uint64_t i) { ++marks[i]; });
  job.parallel_for(0, 1000, [&](IndexRange piece) {
    for (std::uint64_t i = piece.low; i < piece.high; ++i) ++marks[i];
  });
  job.parallel_for(
      0, 10,
      [&](Context& there, IndexRange outer) {
        there.parallel_for(outer.low * 100, outer.high * 100, [&](std::uint64_t i) { ++marks[i]; });
      },
      1);
  const auto thrice = std::count_if(marks.begin(), marks.end(), [](const auto& mark) { return mark == 3; });
  try {
    job.parallel_for(0, 1'000'000, [](std::uint64_t i) {
      if (i == 500) throw Flood{static_cast<int>(i)};
    });
  } catch (const Flood& flood) {
    job.write(std::to_string(thrice) + " " + std::to_string(flood.height));
  }
}

// "linger FD": for a payload with a number after the word, first writes a byte to that file: the
// job has begun.
void say_begun(std::string_view payload, std::string_view word) {
  if (payload == word) return;
  const std::string fd(payload.substr(word.size() + 1));
  if (::write(std::stoi(fd), "", 1) != 1) throw std::runtime_error("cannot write to file " + fd);
}

class Tester {
 public:
  explicit Tester(Setup& setup) : handler_(setup.handler()) {
    if (handler_ == "refused") throw std::runtime_error("this name is refused");
  }

  void operator()(Job& job, std::string_view payload) const {
    if (payload == "handler") return job.write(handler_);
    if (payload == "throw") throw std::runtime_error("thrown as asked");
    if (payload == "throw int") throw 7;
    if (payload == "fail") {
      job.fail("failed as asked");
      return job.write("is not to be seen");
    }
    if (payload == "fib") return job.write(std::to_string(fib(job, 20)));
    if (payload == "closures") return large_closures(job);
    if (payload == "flood") return flood_below(job);
    if (payload == "flood of a job") {
      TaskGroup group(job);
      group.spawn([](Context&) { throw std::runtime_error("the water rises"); });
      group.wait();
    }
    if (payload == "loops") return loops(job);
    if (payload.starts_with("linger")) {
      say_begun(payload, "linger");
      if (job.time_left() == std::chrono::nanoseconds::max()) job.write("no limit");
      while (!job.should_stop()) job.sleep_for(std::chrono::milliseconds(1));
      return job.give_up();
    }
    if (payload.starts_with("endless loop")) {
      say_begun(payload, "endless loop");
      std::atomic<std::uint64_t> rounds{0};
      job.parallel_for(0, ~std::uint64_t{0}, [&](std::uint64_t) { ++rounds; });
      return job.give_up();
    }
    if (payload == "give up") {
      job.give_up();
      return job.write("went on");
    }
    job.write(payload);
  }

 private:
  const std::string handler_;
};

}  // namespace

LOCKSLEY_PLUGIN_CLASS("in_cxx", "is written in C++", Tester)
