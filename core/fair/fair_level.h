// One level of start-time fair queueing: which node is owed most, how much a turn moves its key,
// and at which virtual time a newcomer starts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/job.h"
#include "core/fair/fair_node.h"
#include "core/fair/fair_nodes.h"
#include "core/fair/indexed_heap.h"

namespace locksley {

// The nodes that are ready to be served, in the order in which they will be. Node has a member
// `fair` (FairNode). A node is ready while it is in a heap of the level. Ready or not, it may have
// executors: turns that are not settled. core/FAIRNESS.md proves what this class does.
//
// Levels share a clock if their nodes compete with each other, but cannot always be served at the
// same times: in a ring, those at different gates. The keys of a level, plus its offset, are times
// of that clock. The offset is 0 until follow() or move_back() shifts all nodes of the level
// together.
//
// Owned by the code that serves the nodes; borrows its nodes and its clock. Every call needs the
// mutex that guards them (fair_nodes.h). Nothing blocks or fails.
template <class Node>
class FairLevel {
 public:
  // The greatest amount of service that counts (18 years), so that the sum of a few does not
  // overflow.
  static constexpr std::int64_t kMostService = std::int64_t{1} << 59;

  explicit FairLevel(FairClock& clock) : clock_(clock) {}
  FairLevel(const FairLevel&) = delete;
  FairLevel& operator=(const FairLevel&) = delete;

  bool empty() const { return brief_.empty() && lengthy_.empty(); }
  bool has_brief() const { return !brief_.empty(); }
  std::size_t size() const { return brief_.size() + lengthy_.size(); }
  bool has_one() const {
    return lengthy_.empty() ? brief_.size() == 1 : brief_.empty() && lengthy_.size() == 1;
  }

  // The node that is owed most. The level must not be empty.
  Node& top() const {
    if (lengthy_.empty()) return brief_.top();
    if (brief_.empty()) return lengthy_.top();
    return lengthy_.top_key() < brief_.top_key() ? lengthy_.top() : brief_.top();
  }
  // The node with brief jobs that is owed most. has_brief() must hold.
  Node& top_brief() const { return brief_.top(); }

  // The virtual time, as keys of this level count it.
  VirtualTime now() const { return clock_.now - offset_; }
  // What a key of this level is on the clock.
  VirtualTime time_of(VirtualTime key) const { return key + offset_; }
  VirtualTime key_of(VirtualTime time) const { return time - offset_; }
  // The start of top(), on the clock.
  VirtualTime top_time() const LOCKSLEY_REQUIRES(kFairNodes) { return time_of(top().fair.key); }
  // Where the clock moves when a node of this level is served, and no other level of the clock has
  // ready nodes: to the least start. If only one node is ready, it may have been charged too much
  // for its turns in progress. Settlements give back the excess later, and a newcomer must not wait
  // for that, so the clock does not count these charges.
  VirtualTime time_to_pass() const LOCKSLEY_REQUIRES(kFairNodes) {
    const FairNode& fair = top().fair;
    return time_of(fair.has_pending() && has_one() ? fair.settled_key() : fair.key);
  }
  // The value to which the clock moves, but not past the least start of all ready nodes, after a
  // turn of `node` that used `service` was settled and the node is not ready: the start of that
  // turn if only settled turns had been charged. So the clock now counts the charges that
  // time_to_pass() left out.
  VirtualTime settled_start(const Node& node, std::int64_t service) const LOCKSLEY_REQUIRES(kFairNodes) {
    return time_of(node.fair.settled_key() - charge_of(node.fair, service));
  }
  // How often the level was shifted. While the number is the same, a key that did not change stands
  // for the same time of the clock.
  std::uint64_t shifts() const { return shifts_; }
  FairClock& clock() const { return clock_; }

  // How much `service` adds to the key of a node.
  static VirtualTime charge_of(const FairNode& fair, std::int64_t service) {
    const std::int64_t weight = fair.weight;
    // Rounded up. settle() subtracts all of it, so FairNode::remainder consists of service that was
    // used.
    return (std::min(service, kMostService) + weight - 1) / weight;
  }

  // `node`, which is ready, takes a turn that is expected to cost `service`. Returns the amount
  // that was added to its key: the caller passes it to settle() when the turn ends. Before this
  // call, the caller moves the clock to the least start of all nodes that could be served; after
  // it, the caller calls set_ready().
  VirtualTime charge(Node& node, std::int64_t service) LOCKSLEY_REQUIRES(kFairNodes) {
    FairNode& fair = node.fair;
    const VirtualTime charged = charge_of(fair, service);
    fair.key += charged;
    fair.pending += charged;
    fair.turn = ++clock_.turns;
    ++fair.executors;
    return charged;
  }

  // An executor's turn is over: `service`, which it used, replaces `charged`, which charge() added
  // (0 for an executor that has joined). `has_reentered`: the node has entered since the turn began
  // (FairNode::entry). The caller then calls set_ready().
  void settle(Node& node, VirtualTime charged, bool has_reentered, std::int64_t service)
      LOCKSLEY_REQUIRES(kFairNodes) {
    correct(node.fair, charged, has_reentered, service);
    --node.fair.executors;
    clock_.latest_finish = std::max(clock_.latest_finish, time_of(node.fair.key));
  }
  static void correct(FairNode& fair, VirtualTime charged, bool has_reentered, std::int64_t service)
      LOCKSLEY_REQUIRES(kFairNodes) {
    const std::int64_t due = std::min(service, kMostService) + fair.remainder;
    const VirtualTime correction = due / fair.weight - charged;
    fair.remainder = static_cast<std::uint32_t>(due % fair.weight);
    move(fair, correction, has_reentered);
    (has_reentered ? fair.pending_before : fair.pending) -= charged;
  }

  // A turn that still runs has used `service` so far. If that is more than `charged`, it replaces
  // the charge. Returns what is charged now, for settle(). `has_reentered` as in settle(). The
  // caller then calls set_ready().
  static VirtualTime charge_so_far(FairNode& fair, VirtualTime charged, bool has_reentered,
                                   std::int64_t service) LOCKSLEY_REQUIRES(kFairNodes) {
    const VirtualTime used = std::min(service, kMostService) / fair.weight;
    if (used <= charged) return charged;
    change_charge(fair, used - charged, has_reentered);
    return used;
  }
  // The charge of a turn in progress changes by `by`. `has_reentered` as in settle().
  static void change_charge(FairNode& fair, VirtualTime by, bool has_reentered)
      LOCKSLEY_REQUIRES(kFairNodes) {
    move(fair, by, has_reentered);
    (has_reentered ? fair.pending_before : fair.pending) += by;
  }
  // The charge of a turn, or the service that replaced it, changes by `by`. `has_reentered` as in
  // settle().
  static void move(FairNode& fair, VirtualTime by, bool has_reentered) LOCKSLEY_REQUIRES(kFairNodes) {
    if (!has_reentered) [[likely]] {
      fair.key += by;
    } else {
      // The node has entered since, at max(its own finish, virtual time). The change is one of that
      // finish, so the maximum is computed again: the node never falls below the virtual time at
      // which it entered.
      const VirtualTime before = std::max<VirtualTime>(0, fair.slack);
      fair.slack += by;
      fair.key += std::max<VirtualTime>(0, fair.slack) - before;
    }
  }

  // Updates the heaps after a change of the node: whether it is in one, in which, and with which
  // key. A node that enters starts at max(its own finish, virtual time).
  void set_ready(Node& node, bool ready, JobLength length) LOCKSLEY_REQUIRES(kFairNodes) {
    FairNode& fair = node.fair;
    if (fair.is_ready()) {
      if (ready && length == fair.length) {
        heap(length).update(node, FairKey(fair));
        return;
      }
      heap(fair.length).remove(node);
      if (ready) admit(node, length);
    } else if (ready) {
      clock_.enter(fair, now());
      admit(node, length);
    }
  }
  // A node that is in no heap becomes ready, with the key that it has.
  void admit(Node& node, JobLength length) LOCKSLEY_REQUIRES(kFairNodes) {
    node.fair.length = length;
    heap(length).push(node, FairKey(node.fair));
  }
  // `by`, which is on no level, takes the place of `node`, with the same key. The caller has copied
  // FairNode.
  void replace(Node& node, Node& by) LOCKSLEY_REQUIRES(kFairNodes) {
    heap(node.fair.length).replace(node, by);
  }
  // Updates the heap after any other change of the node's key, if the node is ready.
  void update(Node& node) LOCKSLEY_REQUIRES(kFairNodes) {
    if (node.fair.is_ready()) heap(node.fair.length).update(node, FairKey(node.fair));
  }

  // The clock has advanced by `by` while no node of this level could be served. If the first node
  // is behind the clock now, all nodes move on together until the first has caught up, by at most
  // `by`. So they keep their order and distances, and earn nothing by waiting.
  void follow(VirtualTime by) LOCKSLEY_REQUIRES(kFairNodes) {
    if (empty()) return;
    const VirtualTime behind = std::min(clock_.now - top_time(), by);
    if (behind <= 0) return;
    offset_ += behind;
    ++shifts_;
  }
  // Lowers the starts of all nodes together by `by`, or by less, so that the first start stays at
  // or above the clock. Returns by how much.
  VirtualTime move_back(VirtualTime by) LOCKSLEY_REQUIRES(kFairNodes) {
    const VirtualTime moved = empty() ? by : std::min(by, top_time() - clock_.now);
    if (moved <= 0) return 0;
    offset_ -= moved;
    ++shifts_;
    return moved;
  }

  // Calls move_back() for a level that is further ahead of the clock than it may be. Part of the
  // lead is the charges of turns in progress. If such a turn ends and has used less, too much was
  // forgiven, and the level may be behind the clock by the difference. It gets no credit for that:
  // the caller moves all levels whose leads were forgiven on again, together, with restore_lead().
  void forgive_lead(VirtualTime by, Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes) {
    forgiven_ = std::min(VirtualTime{kMostService}, forgiven_ + move_back(by));
    forgiven_at_ = now;
  }
  // A turn that began at `began` has ended. How far the first node is behind the clock, but no more
  // than the lead that was forgiven and not restored; 0 if nothing was forgiven since the turn
  // began.
  VirtualTime wrongly_forgiven(Nanoseconds began) const LOCKSLEY_REQUIRES(kFairNodes) {
    if (forgiven_at_ < began || empty()) return 0;
    return std::clamp(clock_.now - top_time(), VirtualTime{0}, forgiven_);
  }
  // Moves all nodes on by `by`, but no more than the forgiven lead; not at all if no lead was
  // forgiven since `began`.
  void restore_lead(VirtualTime by, Nanoseconds began) LOCKSLEY_REQUIRES(kFairNodes) {
    if (forgiven_at_ < began || forgiven_ == 0) return;
    const VirtualTime moved = std::min(by, forgiven_);
    forgiven_ -= moved;
    offset_ += moved;
    ++shifts_;
  }

  // The excess: virtual time by which nodes of this level were charged more than they used (a start
  // may be charged more than its time). This orders the nodes of this level among themselves.
  // Compared with other levels of the clock, this one has received no more than it used. So while
  // its first node is ahead of the clock, forgive_excess() moves all nodes back together, by at
  // most the excess.
  void note_excess(std::int64_t service) {
    const auto weight = static_cast<std::int64_t>(std::max<std::uint64_t>(active_weight_, 1));
    excess_ = std::min(VirtualTime{kMostService}, excess_ + service / weight);
  }
  void forgive_excess() LOCKSLEY_REQUIRES(kFairNodes) {
    if (excess_ == 0 || empty()) return;
    const VirtualTime ahead = std::clamp(top_time() - clock_.now, VirtualTime{0}, excess_);
    move_back(ahead);
    excess_ -= ahead;
  }
  void clear_excess() { excess_ = 0; }

  // Sum of the weights of the nodes that are ready or have executors, as FairCompetitor counts
  // it. Modulo 2^64: adding -n takes n away.
  void change_weight(std::uint64_t by) { active_weight_ += by; }

  // From now on, the node is neither ahead of the virtual time nor behind it, whatever service it
  // has received. Of its turns in progress, only the time beyond their charges counts.
  void start_anew(Node& node) LOCKSLEY_REQUIRES(kFairNodes) {
    FairNode& fair = node.fair;
    fair.key = now();
    fair.slack = 0;
    fair.begin_entry(++clock_.turns);
    update(node);
  }

  // Before FairClock::set_back(). Subtracts the level's virtual time from the keys in its heaps,
  // and its offset becomes 0. The caller then calls set_back(node) for every node of the level,
  // ready or not, which does the same to FairNode::key.
  void set_back() {
    const VirtualTime by = set_back_by_ = now();
    offset_ = 0;
    const auto change = [by](FairKey key) {
      key.start -= by;
      return key;
    };
    brief_.change_keys(change);
    lengthy_.change_keys(change);
  }
  void set_back(Node& node) const LOCKSLEY_REQUIRES(kFairNodes) {
    node.fair.key = set_back(node.fair.key, set_back_by_);
  }
  // The bound is for nodes that were not ready while the clock was set back several times. Ready
  // nodes are never that far behind.
  static VirtualTime set_back(VirtualTime key, VirtualTime by) {
    return std::max(key - by, -(VirtualTime{1} << 61));
  }

  // Calls visit(node, its key) for every `stride`th ready node, in no useful order. Reads the heaps
  // only, not the nodes.
  template <class Visit>
  void for_each_ready(std::size_t stride, Visit visit) const LOCKSLEY_REQUIRES(kFairNodes) {
    const auto look = [&](const auto& entries) LOCKSLEY_REQUIRES(kFairNodes) {
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

  FairClock& clock_;
  Heap brief_;
  Heap lengthy_;
  VirtualTime offset_ = 0;  // key + offset = time of the clock
  std::uint64_t shifts_ = 0;
  std::uint64_t active_weight_ = 0;  // change_weight()
  VirtualTime excess_ = 0;           // note_excess(), and not forgiven yet
  VirtualTime forgiven_ = 0;         // forgive_lead(), and not restored
  Nanoseconds forgiven_at_{-1};      // the last forgive_lead()
  VirtualTime set_back_by_ = 0;      // the last set_back()
};

}  // namespace locksley
