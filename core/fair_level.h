// Start-time fair queueing among nodes of one level: who is owed most, what a turn costs, where a newcomer
// starts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/indexed_heap.h"
#include "core/job.h"
#include "core/usage.h"

namespace locksley {

// Service received divided by weight, in nanoseconds, counted from where its level's clock was last set back.
using VirtualTime = std::int64_t;

// Which heap a node waits in: workers that are kept for brief jobs look at one of them alone.
enum class JobLength : std::uint8_t { brief, lengthy };

// A competitor of a level: a tenant among tenants, a queue among the queues of its tenant. Guarded by the
// ring's mutex.
struct FairNode {
  static constexpr std::uint32_t kNotInHeap = std::numeric_limits<std::uint32_t>::max();

  // Virtual start of the next turn: service settled so far / weight + what is charged for turns not settled
  // yet.
  VirtualTime key = 0;
  // key - virtual time of the level, when the node last entered a heap, corrected since; see
  // FairLevel::settle.
  VirtualTime slack = 0;
  // Number of the last turn (or entry): the longest unserved node has the least.
  std::uint64_t turn = 0;
  Usage usage;
  std::uint32_t weight = 1;
  std::uint32_t remainder = 0;  // service not yet in `key`, because it did not fill a weight; < weight
  std::uint32_t executors = 0;
  std::uint32_t epoch = 1;  // counts entries; 0 is no epoch
  std::uint32_t place = kNotInHeap;
  JobLength length = JobLength::brief;
  bool competes = false;  // its weight counts in the level's sum: it has work or executors

  bool is_ready() const { return place != kNotInHeap; }
};

// What orders a heap: least start first; then fewest executors; then longest unserved.
struct FairKey {
  VirtualTime start;
  std::uint64_t tie;  // executors in the upper 10 bits (saturating), turn in the lower 54 (57 years at 10
                      // million turns/s)

  explicit FairKey(const FairNode& node)
      : start(node.key),
        tie((std::uint64_t{std::min(node.executors, 1023U)} << 54) |
            (node.turn & ((std::uint64_t{1} << 54) - 1))) {}
  friend bool operator<(const FairKey& a, const FairKey& b) {
    return a.start < b.start || (a.start == b.start && a.tie < b.tie);
  }
};

// The nodes of one level that are ready to be served, and the level's virtual time. Node has a member `fair`
// (FairNode). Owned by the ring or by a tenant; every call needs the ring's mutex; nothing blocks or fails.
// See core/FAIRNESS.md for why it is right.
//
// A node is ready while it is in a heap. It may have executors (unsettled turns) in or out of it.
template <class Node>
class FairLevel {
 public:
  // Amounts of service above this count as this (18 years): keeps sums of a few of them from overflowing.
  static constexpr std::int64_t kMostService = std::int64_t{1} << 59;

  bool empty() const { return brief_.empty() && lengthy_.empty(); }
  bool has_brief() const { return !brief_.empty(); }
  std::size_t size() const { return brief_.size() + lengthy_.size(); }

  // The node owed most. The level must not be empty.
  Node& top() const {
    if (lengthy_.empty()) return brief_.top();
    if (brief_.empty()) return lengthy_.top();
    return lengthy_.top_key() < brief_.top_key() ? lengthy_.top() : brief_.top();
  }
  // The one with brief jobs that is owed most. has_brief() must hold.
  Node& top_brief() const { return brief_.top(); }

  VirtualTime now() const { return now_; }
  // Sum of the weights of all that compete.
  std::uint64_t competing_weight() const { return competing_weight_; }

  // `node`, which is ready, takes a turn that is expected to cost `service`. Returns what was added to its
  // key, to be given back to settle(). The caller then calls set_ready().
  VirtualTime charge(Node& node, std::int64_t service) {
    FairNode& fair = node.fair;
    // The start of the node served; or, if a brief one was preferred, the least start there is: a preference
    // must not push newcomers behind those it passed over.
    now_ = std::max(now_, top().fair.key);
    const std::int64_t weight = fair.weight;
    // Rounded up, and taken back whole by settle(): the remainder only ever sees real service.
    const VirtualTime charged = (std::min(service, kMostService) + weight - 1) / weight;
    fair.key += charged;
    fair.turn = ++turns_;
    ++fair.executors;
    return charged;
  }

  // An executor joins a turn of `node`, uncharged. While nobody is ready it is served at its key, as by a
  // claim: what it gets then is at nobody's cost, and newcomers start there.
  void join(Node& node) {
    if (empty()) now_ = std::max(now_, node.fair.key);
    ++node.fair.executors;
  }

  // An executor's turn is over: what charge() added (0 after join()) goes, what it really cost comes. `epoch`
  // is the node's at the time of charge() or join(). The caller then calls set_ready().
  void settle(Node& node, VirtualTime charged, std::uint32_t epoch, std::int64_t service) {
    FairNode& fair = node.fair;
    const std::int64_t due = std::min(service, kMostService) + fair.remainder;
    const VirtualTime correction = due / fair.weight - charged;
    fair.remainder = static_cast<std::uint32_t>(due % fair.weight);
    if (epoch == fair.epoch) {
      fair.key += correction;
    } else {
      // The node has entered a heap since, at max(own finish, virtual time). The correction belongs to the
      // own finish of then; redo the maximum, so that an estimate taken back never brings the node below the
      // virtual time it entered at.
      const VirtualTime before = std::max<VirtualTime>(0, fair.slack);
      fair.slack += correction;
      fair.key += std::max<VirtualTime>(0, fair.slack) - before;
    }
    --fair.executors;
    latest_finish_ = std::max(latest_finish_, fair.key);
  }

  // Brings the heaps up to date with the node: in or out, in which one, with which key. Whoever enters starts
  // at max(own finish, virtual time): being away earns nothing.
  void set_ready(Node& node, bool ready, JobLength length) {
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

  void set_competes(Node& node, bool competes) {
    if (node.fair.competes == competes) return;
    node.fair.competes = competes;
    competing_weight_ += competes ? node.fair.weight : -std::uint64_t{node.fair.weight};
  }

  // From now on; what is charged stays charged as it was.
  void set_weight(Node& node, std::uint32_t weight) {
    FairNode& fair = node.fair;
    if (fair.competes) competing_weight_ += std::uint64_t{weight} - fair.weight;
    fair.remainder = static_cast<std::uint32_t>(std::uint64_t{fair.remainder} * weight / fair.weight);
    fair.weight = weight;
  }

  // Nobody is ready and nobody has executors: a busy period is over, and with it all that anyone is ahead.
  void end_busy_period() { now_ = std::max(now_, latest_finish_); }

  // Sets the level's clock back to 0. The caller then calls set_back(node, the result) for every node there
  // is, ready or not.
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
  static void set_back(Node& node, VirtualTime by) {
    // The bound is for nodes that have been away through several of these; ready ones are never that far
    // behind.
    node.fair.key = std::max(node.fair.key - by, -(VirtualTime{1} << 61));
  }

  // visit(node, its key) for each `stride`th of those that are ready, in no useful order. Looks at no node
  // that visit does not look at.
  template <class Visit>
  void for_each_ready(std::size_t stride, Visit visit) const {
    const auto look = [&](const auto& entries) {
      for (std::size_t i = 0; i < entries.size(); i += stride) visit(*entries[i].element, entries[i].key);
    };
    look(brief_.entries());
    look(lengthy_.entries());
  }

 private:
  static std::uint32_t& place_of(Node& node) { return node.fair.place; }
  using Heap = IndexedHeap<Node, FairKey, &FairLevel::place_of>;

  Heap& heap(JobLength length) { return length == JobLength::brief ? brief_ : lengthy_; }

  Heap brief_;
  Heap lengthy_;
  VirtualTime now_ = 0;  // the greatest key at which a node was served; only grows, but for set_back()
  VirtualTime latest_finish_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t competing_weight_ = 0;
};

}  // namespace locksley
