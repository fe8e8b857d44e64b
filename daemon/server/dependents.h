#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace locksley::daemon {

// A batch that another waits for.
struct Wait {
  std::uint64_t sequence;
  std::string id;
  bool only_if_ok;            // AFTEROK
  bool is_satisfied = false;  // it is over, and well if that matters
};

// What one batch waits for. Members of its record; the I/O thread only.
struct Waits {
  std::vector<Wait> all;  // by sequence, each once; forgotten when the batch is over
  std::size_t open = 0;   // of these, how many are not satisfied
  // It was accepted with AFTER or AFTEROK that were not satisfied at once: then the store is told when it
  // needs to wait no longer.
  bool were_any = false;
};

// Who waits for whom, by sequence: a plain container of the I/O thread. Only pairs of batches that are both
// not over; O(log n). A batch waits only for older ones, so there are no circles.
class Dependents {
 public:
  void add(std::uint64_t dependency, std::uint64_t dependent) {
    by_dependency_[dependency].insert(dependent);
  }
  void remove(std::uint64_t dependency, std::uint64_t dependent) {
    const auto found = by_dependency_.find(dependency);
    if (found == by_dependency_.end()) return;
    found->second.erase(dependent);
    if (found->second.empty()) by_dependency_.erase(found);
  }
  // The dependency is over: all who waited for it, in the order of their acceptance. They are no longer here.
  std::set<std::uint64_t> take(std::uint64_t dependency) {
    const auto found = by_dependency_.find(dependency);
    if (found == by_dependency_.end()) return {};
    auto taken = std::move(found->second);
    by_dependency_.erase(found);
    return taken;
  }
  bool empty() const { return by_dependency_.empty(); }

 private:
  std::map<std::uint64_t, std::set<std::uint64_t>> by_dependency_;
};

}  // namespace locksley::daemon
