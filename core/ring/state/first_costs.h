// The cost of the first jobs of a group's queues.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace locksley {

// The cost of the first job that ended in each queue, by kind of jobs (QueueOptions::kind). The
// jobs of a new queue are expected to cost as much until one of them has ended.
//
// A member of RingSeat, and guarded as it is. O(kinds), which are few: the handlers at one gate.
// Only allocation fails.
class FirstCosts {
 public:
  // A decaying mean in nanoseconds; 0: unknown.
  double mean(const void* kind) const {
    const Cost* const found = find(kind);
    return found == nullptr ? 0 : found->mean;
  }
  // The least of the last kRecent in nanoseconds; 0: unknown, or there were fewer. One job whose
  // executor was delayed does not change it.
  double least(const void* kind) const {
    const Cost* const found = find(kind);
    return found == nullptr ? 0 : std::ranges::min(found->recent);
  }
  void learn(const void* kind, double cost) {
    auto found = std::ranges::find(all_, kind, &Cost::kind);
    if (found == all_.end()) {
      if (all_.size() == kMost) all_.erase(all_.begin());
      found = all_.insert(all_.end(), Cost{.kind = kind, .mean = cost});
    }
    found->mean += (cost - found->mean) * kGain;
    found->recent[found->count++ % kRecent] = cost;
  }

 private:
  static constexpr double kGain = 0.25;     // as that of JobCost
  static constexpr std::size_t kMost = 64;  // guess; kinds of handlers that were removed do not stay for ever
  static constexpr std::size_t kRecent = 4;  // guess

  struct Cost {
    const void* kind;
    double mean;
    std::array<double, kRecent> recent{};
    std::size_t count = 0;
  };
  const Cost* find(const void* kind) const {
    const auto found = std::ranges::find(all_, kind, &Cost::kind);
    return found == all_.end() ? nullptr : &*found;
  }
  std::vector<Cost> all_;  // the oldest kind first
};

}  // namespace locksley
