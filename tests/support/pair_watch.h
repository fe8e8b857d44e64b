// Random costs, and the bound of core/FAIRNESS.md for each pair of nodes: for tests of the fair
// ring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <utility>

#include "tests/support/ring_simulator.h"

namespace locksley::test {

using Random = std::mt19937_64;

// LOCKSLEY_SEED, or a random seed.
inline std::uint64_t base_seed() {
  const char* given = std::getenv("LOCKSLEY_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

inline std::uint64_t up_to(Random& random, std::uint64_t most) { return random() % (most + 1); }

// A cost per job that is steady, or wild, or jumps; and hardly ever what the ring expects.
inline RingSimulator::Cost random_cost(Random& random) {
  const auto usual =
      static_cast<std::int64_t>(std::exp2(static_cast<double>(up_to(random, 120)) / 10)) * 1000;
  switch (up_to(random, 3)) {
    case 0:
      return [usual](std::uint64_t) { return Nanoseconds{usual}; };
    case 1:
      return [usual](std::uint64_t i) {
        return Nanoseconds{1 + usual * static_cast<std::int64_t>(i * 2654435761U % 1000) / 500};
      };
    case 2:
      return [usual](std::uint64_t i) { return Nanoseconds{i / 20 % 2 == 0 ? usual : usual / 1000 + 1}; };
    default:
      return [usual](std::uint64_t i) { return Nanoseconds{i % 50 == 49 ? usual * 20 : usual / 20 + 1}; };
  }
}

// Watches every pair of nodes of a level: while both wait without a break, the service per weight
// that they receive must not differ by more than the bound.
template <class Node>
class PairWatch {
 public:
  struct State {
    bool waiting;
    Nanoseconds received;
    Nanoseconds longest_turn;
    std::uint32_t weight;
    std::uint32_t running;
  };

  explicit PairWatch(std::uint32_t workers) : workers_(workers) {}

  void look(const std::map<Node, State>& states) {
    for (const auto& [node, state] : states) {
      if (!state.waiting) {
        running_at_entry_.erase(node);
      } else {
        running_at_entry_.emplace(node, state.running);
      }
    }
    for (auto a = states.begin(); a != states.end(); ++a) {
      for (auto b = std::next(a); b != states.end(); ++b) look_at_pair(*a, *b);
    }
  }

  double worst() const { return worst_; }
  std::uint64_t looks() const { return looks_; }

 private:
  using Entry = std::pair<const Node, State>;
  struct Since {
    double difference;
    std::uint32_t old_turns;
  };

  void look_at_pair(const Entry& a, const Entry& b) {
    const auto pair = std::make_pair(a.first, b.first);
    const double difference =
        per_weight(a.second.received, a.second) - per_weight(b.second.received, b.second);
    const auto since = since_.find(pair);
    if (since != since_.end()) {
      const double longest =
          std::max(per_weight(a.second.longest_turn, a.second), per_weight(b.second.longest_turn, b.second));
      worst_ = std::max(worst_, std::abs(difference - since->second.difference) /
                                    ((2 * workers_ + since->second.old_turns) * longest));
      ++looks_;
    }
    if (!a.second.waiting || !b.second.waiting) {
      since_.erase(pair);
    } else if (since == since_.end()) {
      since_.emplace(pair, Since{difference, old_turns(a) + old_turns(b)});
    }
  }
  // At most so many of its turns began before it last became ready.
  std::uint32_t old_turns(const Entry& entry) const {
    return std::min(entry.second.running, running_at_entry_.at(entry.first));
  }
  static double per_weight(Nanoseconds time, const State& state) {
    return static_cast<double>(time.count()) / state.weight;
  }

  const std::uint32_t workers_;
  std::map<Node, std::uint32_t> running_at_entry_;
  std::map<std::pair<Node, Node>, Since> since_;
  double worst_ = 0;
  std::uint64_t looks_ = 0;
};

}  // namespace locksley::test
