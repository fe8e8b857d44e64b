// The clock of a simulation, and what is to happen when.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/job.h"

namespace locksley::daemon::simulation {

// Events in the order of their instants; those of one instant in the order in which they were made.
// One thread. Nothing blocks.
class Clock {
 public:
  using Event = std::function<void()>;

  Nanoseconds now() const { return now_; }
  std::uint64_t events() const { return number_; }

  void at(Nanoseconds when, Event event) {
    heap_.push_back({std::max(when, now_), ++number_, std::move(event)});
    std::ranges::push_heap(heap_, is_later);
  }
  void after(Nanoseconds wait, Event event) { at(now_ + wait, std::move(event)); }
  // What is due up to `end` happens; then it is `end`.
  void run_until(Nanoseconds end) {
    while (!heap_.empty() && heap_.front().when <= end) {
      std::ranges::pop_heap(heap_, is_later);
      Entry next = std::move(heap_.back());
      heap_.pop_back();
      now_ = next.when;
      next.event();
    }
    now_ = std::max(now_, end);
  }

 private:
  struct Entry {
    Nanoseconds when;
    std::uint64_t number;
    Event event;
  };
  static bool is_later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  std::vector<Entry> heap_;
  Nanoseconds now_{std::chrono::seconds(1'000)};
  std::uint64_t number_ = 0;
};

}  // namespace locksley::daemon::simulation
