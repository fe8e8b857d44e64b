// Start-time fair queueing among the nodes of one level: which node is owed most, what a turn
// costs, and at which virtual time a newcomer starts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/base/job.h"
#include "core/ring/indexed_heap.h"
#include "core/ring/ring_lock.h"
#include "core/ring/usage.h"

namespace locksley {

// Service received divided by weight, in nanoseconds, since the level's clock was last set back.
using VirtualTime = std::int64_t;

// In which heap a node waits: workers that are reserved for brief jobs search one of the two only.
enum class JobLength : std::uint8_t { kBrief, kLengthy };

// A competitor on a level: a tenant among tenants, or a queue among the queues of its tenant. A
// member of the tenant or queue, and guarded there by the ring's mutex.
struct FairNode {
  static constexpr std::uint32_t kNotInHeap = std::numeric_limits<std::uint32_t>::max();

  // Virtual start of the next turn: settled service / weight + the charges of turns that are not
  // settled.
  VirtualTime key = 0;
  // The key minus the level's virtual time when the node last entered a heap, corrected by later
  // settlements: see FairLevel::settle().
  VirtualTime slack = 0;
  // Number of the last turn, or of the last entry: the node that has waited longest has the least.
  std::uint64_t turn = 0;
  Usage usage;
  std::uint32_t weight = 1;
  std::uint32_t remainder = 0;  // service not yet in `key`, since it is less than a weight
  std::uint32_t executors = 0;
  std::uint32_t epoch = 1;  // counts entries; 0 is no epoch
  std::uint32_t place = kNotInHeap;
  JobLength length = JobLength::kBrief;
  bool competes = false;  // has jobs or executors: its weight counts in the level's sum

  bool is_ready() const { return place != kNotInHeap; }
};

// The order of a heap: least start first, then fewest executors, then longest wait.
struct FairKey {
  VirtualTime start;
  // Executors in the upper 10 bits (saturating), turn in the lower 54 (57 years at 10 million turns
  // a second).
  std::uint64_t tie;

  explicit FairKey(const FairNode& node)
      : start(node.key),
        tie((std::uint64_t{std::min(node.executors, 1023U)} << 54) |
            (node.turn & ((std::uint64_t{1} << 54) - 1))) {}
  friend bool operator<(const FairKey& a, const FairKey& b) {
    return a.start < b.start || (a.start == b.start && a.tie < b.tie);
  }
};

// The nodes of one level that are ready to be served, and the level's virtual time. Node has a
// member `fair` (FairNode). A node is ready while it is in a heap; it may have executors (turns
// that are not settled) in both states. core/FAIRNESS.md proves what this class does.
//
// Owned by the ring (tenants) or by a tenant (its queues); borrows its nodes.
// Every call needs the ring's mutex (core/ring/ring_lock.h). Nothing blocks or fails.
template <class Node>
class FairLevel {
 public:
  // The greatest amount of service that counts (18 years), so that the sum of a few does not
  // overflow.
  static constexpr std::int64_t kMostService = std::int64_t{1} << 59;

  bool empty() const { return brief_.empty() && lengthy_.empty(); }
  bool has_brief() const { return !brief_.empty(); }
  std::size_t size() const { return brief_.size() + lengthy_.size(); }

  // The node that is owed most. The level must not be empty.
  Node& top() const {
    if (lengthy_.empty()) return brief_.top();
    if (brief_.empty()) return lengthy_.top();
    return lengthy_.top_key() < brief_.top_key() ? lengthy_.top() : brief_.top();
  }
  // The node with brief jobs that is owed most. has_brief() must hold.
  Node& top_brief() const { return brief_.top(); }

  VirtualTime now() const { return now_; }
  // Sum of the weights of all nodes that compete.
  std::uint64_t competing_weight() const { return competing_weight_; }

  // `node`, which is ready, takes a turn that is expected to cost `service`. Returns the amount
  // that was added to its key; the caller passes it to settle() later. The caller then calls
  // set_ready().
  VirtualTime charge(Node& node, std::int64_t service) LOCKSLEY_REQUIRES(kRingNodes) {
    FairNode& fair = node.fair;
    // The start of the node that is served; if a brief one was preferred, the least start of all:
    // else newcomers would start after the nodes that were passed over.
    now_ = std::max(now_, top().fair.key);
    const std::int64_t weight = fair.weight;
    // Rounded up, and subtracted as a whole by settle(): so the remainder contains used service
    // only.
    const VirtualTime charged = (std::min(service, kMostService) + weight - 1) / weight;
    fair.key += charged;
    fair.turn = ++turns_;
    ++fair.executors;
    return charged;
  }

  // An executor joins `node` without a charge. While no node is ready, it is served at the node's
  // key, as by a claim: that service takes nothing from other nodes, and newcomers start there.
  void join(Node& node) LOCKSLEY_REQUIRES(kRingNodes) {
    if (empty()) now_ = std::max(now_, node.fair.key);
    ++node.fair.executors;
  }

  // An executor's turn is over: `service`, which it used, replaces `charged`, which charge() added
  // (0 after join()). `epoch` is the node's at the time of charge() or join(). The caller then
  // calls set_ready().
  void settle(Node& node, VirtualTime charged, std::uint32_t epoch, std::int64_t service)
      LOCKSLEY_REQUIRES(kRingNodes) {
    FairNode& fair = node.fair;
    const std::int64_t due = std::min(service, kMostService) + fair.remainder;
    const VirtualTime correction = due / fair.weight - charged;
    fair.remainder = static_cast<std::uint32_t>(due % fair.weight);
    if (epoch == fair.epoch) {
      fair.key += correction;
    } else {
      // The node has entered a heap since, at max(its own finish, virtual time). The correction
      // belongs to that finish. This computes the maximum again, so that the correction of an
      // estimate never moves the node below the virtual time at which it entered.
      const VirtualTime before = std::max<VirtualTime>(0, fair.slack);
      fair.slack += correction;
      fair.key += std::max<VirtualTime>(0, fair.slack) - before;
    }
    --fair.executors;
    latest_finish_ = std::max(latest_finish_, fair.key);
  }

  // Updates the heaps after a change of the node: whether it is in one, in which, and with which
  // key. A node that enters starts at max(its own finish, virtual time): time away earns nothing.
  void set_ready(Node& node, bool ready, JobLength length) LOCKSLEY_REQUIRES(kRingNodes) {
    FairNode& fair = node.fair;
    if (fair.is_ready()) {
      if (ready && length == fair.length) {
        heap(length).update(node, FairKey(fair));
        return;
      }
      heap(fair.length).remove(node);
      fair.length = length;
      if (ready) heap(length).push(node, FairKey(fair));
    } else if (ready) {
      fair.slack = fair.key - now_;
      fair.key = std::max(fair.key, now_);
      if (++fair.epoch == 0) fair.epoch = 1;
      fair.turn = ++turns_;
      fair.length = length;
      heap(length).push(node, FairKey(fair));
    }
  }

  void set_competes(Node& node, bool competes) LOCKSLEY_REQUIRES(kRingNodes) {
    if (node.fair.competes == competes) return;
    node.fair.competes = competes;
    competing_weight_ += competes ? node.fair.weight : -std::uint64_t{node.fair.weight};
  }

  // Effective from now on: charges of turns that are not settled stay as they are.
  void set_weight(Node& node, std::uint32_t weight) LOCKSLEY_REQUIRES(kRingNodes) {
    FairNode& fair = node.fair;
    if (fair.competes) competing_weight_ += std::uint64_t{weight} - fair.weight;
    fair.remainder = static_cast<std::uint32_t>(std::uint64_t{fair.remainder} * weight / fair.weight);
    fair.weight = weight;
  }

  // The node is neither ahead of the virtual time nor behind it, whatever it has received. Charges of
  // turns that are not settled no longer count, but for what the turns use in excess of them.
  void start_anew(Node& node) LOCKSLEY_REQUIRES(kRingNodes) {
    FairNode& fair = node.fair;
    fair.key = now_;
    fair.slack = 0;
    if (++fair.epoch == 0) fair.epoch = 1;
    if (fair.is_ready()) heap(fair.length).update(node, FairKey(fair));
  }

  // No node is ready, and none has executors: a busy period is over, and no node stays ahead of
  // another.
  void end_busy_period() { now_ = std::max(now_, latest_finish_); }

  // Sets the level's clock back to 0, and returns by how much. The caller then calls set_back(node,
  // by) for every node, ready or not.
  VirtualTime set_back() {
    const VirtualTime by = now_;
    now_ = 0;
    latest_finish_ -= by;
    const auto change = [by](FairKey key) {
      key.start -= by;
      return key;
    };
    brief_.change_keys(change);
    lengthy_.change_keys(change);
    return by;
  }
  static void set_back(Node& node, VirtualTime by) LOCKSLEY_REQUIRES(kRingNodes) {
    node.fair.key = set_back(node.fair.key, by);
  }
  // The bound is for nodes that were not ready while the clock was set back several times; ready
  // nodes are never that far behind.
  static VirtualTime set_back(VirtualTime key, VirtualTime by) {
    return std::max(key - by, -(VirtualTime{1} << 61));
  }

  // Calls visit(node, its key) for every `stride`th ready node, in no useful order. Reads the heaps
  // only, not the nodes.
  template <class Visit>
  void for_each_ready(std::size_t stride, Visit visit) const LOCKSLEY_REQUIRES(kRingNodes) {
    const auto look = [&](const auto& entries) LOCKSLEY_REQUIRES(kRingNodes) {
      for (std::size_t i = 0; i < entries.size(); i += stride) visit(*entries[i].element, entries[i].key);
    };
    look(brief_.entries());
    look(lengthy_.entries());
  }

 private:
  // Not checked, since IndexedHeap knows no locks: it is called by the heaps below, which only this
  // level calls.
  static std::uint32_t& place_of(Node& node) LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS { return node.fair.place; }
  using Heap = IndexedHeap<Node, FairKey, &FairLevel::place_of>;

  Heap& heap(JobLength length) { return length == JobLength::kBrief ? brief_ : lengthy_; }

  Heap brief_;
  Heap lengthy_;
  VirtualTime now_ = 0;  // the greatest key at which a node was served; falls in set_back() only
  VirtualTime latest_finish_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t competing_weight_ = 0;
};

}  // namespace locksley
