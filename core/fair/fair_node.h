// What a level of fair queueing consists of: its nodes, the order in which they are served, and the
// clock that counts the service of all competitors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/fair/fair_nodes.h"
#include "core/fair/indexed_heap.h"
#include "core/fair/usage.h"

namespace locksley {

// Service received divided by weight, in nanoseconds, since the clock was last set back.
using VirtualTime = std::int64_t;

// The heap in which a node waits: workers that are reserved for brief jobs search only one of the
// two.
enum class JobLength : std::uint8_t { kBrief, kLengthy };

// A node of a level, which competes there with the other nodes; or all of a competitor with nodes
// on several levels (FairCompetitor). A member of the object that competes, and guarded there.
struct FairNode {
  // Virtual start of the next turn: settled service / weight + the charges of turns that are not
  // settled.
  VirtualTime key = 0;
  // The charges of turns in progress: of those that began since the node last entered (`entry`),
  // which are in the key, and of those that began before.
  VirtualTime pending = 0;
  VirtualTime pending_before = 0;
  // The key minus the virtual time when the node last entered, corrected by later settlements: see
  // FairLevel::move().
  VirtualTime slack = 0;
  // Number of its last turn or entry, whichever was later (FairClock::turns). The node with the
  // least has waited longest.
  std::uint64_t turn = 0;
  Usage usage;
  // Number of its last entry (FairClock::turns): turns with a lower number began before it.
  std::uint64_t entry = 0;
  std::uint32_t weight = 1;
  std::uint32_t remainder = 0;  // service not yet in `key`, since it is less than a weight
  std::uint32_t executors = 0;
  std::uint32_t place = kNotInHeap;
  JobLength length = JobLength::kBrief;
  // Whether the weight counts in FairClock::competing_weight. The caller sets it: the node has
  // executors, or something that may be served as soon as its turn comes.
  bool competes = false;

  bool is_ready() const { return place != kNotInHeap; }
  // The charges that settlements may take off the key count only up to this limit (18 years).
  // Otherwise the clock could stay so far behind the key that differences overflow.
  static constexpr VirtualTime kMostPending = VirtualTime{1} << 59;
  // The key if its turns in progress used no time: the least to which settlements may bring it.
  VirtualTime settled_key() const {
    // The charges from before its entry count only up to its slack: see FairLevel::move().
    const VirtualTime before = std::min(std::max<VirtualTime>(0, slack), pending_before);
    return key - std::min(pending + before, kMostPending);
  }
  bool has_pending() const { return (pending | pending_before) != 0; }
  // All turns in progress began before the entry that the node makes now.
  void begin_entry(std::uint64_t number) {
    entry = number;
    pending_before += std::exchange(pending, 0);
  }
};

// The order of a heap: least start first, then fewest executors, then longest wait.
struct FairKey {
  // The lower bits of `tie` have the turn: enough for 57 years at 10 million turns a second. The
  // upper bits have the number of executors, or the most that fits.
  static constexpr unsigned kTurnBits = 54;
  static constexpr std::uint64_t kTurnMask = (std::uint64_t{1} << kTurnBits) - 1;
  static constexpr std::uint32_t kMostExecutors = (1U << (64 - kTurnBits)) - 1;

  VirtualTime start;
  std::uint64_t tie;

  explicit FairKey(const FairNode& node)
      : start(node.key),
        tie((std::uint64_t{std::min(node.executors, std::uint32_t{kMostExecutors})} << kTurnBits) |
            (node.turn & kTurnMask)) {}
  friend bool operator<(const FairKey& a, const FairKey& b) {
    return a.start < b.start || (a.start == b.start && a.tie < b.tie);
  }
};

// The virtual time of all nodes that compete with each other, and the sum of their weights. Several
// levels may share one clock (FairLevel). Owned and guarded as its levels are.
struct FairClock {
  // The greatest start at which a node was served; but where one node alone was ready, charges
  // count once they are settled (FairLevel::time_to_pass()). It falls in set_back() only.
  VirtualTime now = 0;
  VirtualTime latest_finish = 0;
  std::uint64_t turns = 0;             // numbers turns and entries
  std::uint64_t competing_weight = 0;  // of all nodes that compete

  // No node is ready, and none has executors. The next busy period begins with no node ahead of
  // another.
  void end_busy_period() { now = std::max(now, latest_finish); }
  // Sets the clock back to 0, and returns by how much. The caller sets back all levels of the clock
  // before, and all nodes of these levels before or after (FairLevel::set_back()).
  VirtualTime set_back() {
    const VirtualTime by = std::exchange(now, 0);
    latest_finish -= by;
    return by;
  }

  void set_competes(FairNode& node, bool competes) LOCKSLEY_REQUIRES(kFairNodes) {
    if (node.competes == competes) return;
    node.competes = competes;
    competing_weight += competes ? node.weight : -std::uint64_t{node.weight};
  }
  // Effective from now on: charges of turns that are not settled stay as they are.
  void set_weight(FairNode& node, std::uint32_t weight) LOCKSLEY_REQUIRES(kFairNodes) {
    if (node.competes) competing_weight += std::uint64_t{weight} - node.weight;
    node.remainder = static_cast<std::uint32_t>(std::uint64_t{node.remainder} * weight / node.weight);
    node.weight = weight;
  }
  // The node enters: it starts at max(its own finish, `from`), since time away earns nothing.
  void enter(FairNode& node, VirtualTime from) LOCKSLEY_REQUIRES(kFairNodes) {
    node.slack = node.key - from;
    node.key = std::max(node.key, from);
    node.turn = ++turns;
    node.begin_entry(turns);
  }
};

}  // namespace locksley
