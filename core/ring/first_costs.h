// What the first jobs of the queues of a group have cost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace locksley {

// A decaying mean for each kind of jobs (QueueOptions::kind): of a new queue whose jobs have not been measured, this is what
// they are expected to cost. A member of RingSeat, and guarded as it is. O(kinds), which are few: the handlers at one gate.
// Only allocation fails.
class FirstCosts {
 public:
  // In nanoseconds; 0: unknown.
  double of(const void* kind) const {
    const auto found = std::ranges::find(all_, kind, &Cost::kind);
    return found == all_.end() ? 0 : found->mean;
  }
  void learn(const void* kind, double cost) {
    const auto found = std::ranges::find(all_, kind, &Cost::kind);
    if (found != all_.end()) {
      found->mean += (cost - found->mean) * kGain;
      return;
    }
    if (all_.size() == kMost) all_.erase(all_.begin());
    all_.push_back({kind, cost});
  }

 private:
  static constexpr double kGain = 0.25;     // as that of a queue's own mean
  static constexpr std::size_t kMost = 64;  // guess; kinds of handlers that were removed do not stay for ever

  struct Cost {
    const void* kind;
    double mean;
  };
  std::vector<Cost> all_;  // the oldest kind first
};

}  // namespace locksley
