// How the virtual times of a ring pass: of the tenants, and of the members of each group.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/fair/fair_node.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_gates.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_node.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// Moves the clocks of a ring: as queues are served, and as turns settle. A clock moves to the least
// start of the members that could be served; the levels at closed gates follow it. Has the clock of
// the tenants; each group has that of its members. core/FAIRNESS.md says why clocks move so.
//
// A member of the ring, guarded by its mutex. Borrows the gates. O(gates), unless the call says
// otherwise. Nothing blocks or fails.
class RingClocks {
 public:
  static constexpr VirtualTime kNoStart = std::numeric_limits<VirtualTime>::max();

  // `set_back_at`: FairRing::Options.
  RingClocks(const RingGates& gates, VirtualTime set_back_at) : gates_(gates), set_back_at_(set_back_at) {}
  RingClocks(const RingClocks&) = delete;
  RingClocks& operator=(const RingClocks&) = delete;

  // The clock of the tenants, at whatever gates.
  FairClock& of_tenants() LOCKSLEY_REQUIRES(kFairNodes) { return clock_; }
  const FairClock& of_tenants() const LOCKSLEY_REQUIRES(kFairNodes) { return clock_; }
  FairClock& of_members_beside(const RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes) {
    return group.tenant == nullptr ? clock_ : group.tenant->clock;
  }

  // ---- A member is served ----

  // Moves the clock of the tenants, or of the members of the seat's group, on to `at`, if it is
  // behind. The levels at closed gates follow (FairLevel::follow()).
  void pass(VirtualTime at) LOCKSLEY_REQUIRES(kFairNodes) {
    const VirtualTime by = at - clock_.now;
    if (by <= 0) return;
    clock_.now = at;
    for (RingGate* const gate : gates_.closed()) gate->level.follow(by);
  }
  static void pass(RingSeat& seat, VirtualTime at) LOCKSLEY_REQUIRES(kFairNodes) {
    FairClock& clock = seat.level.clock();
    const VirtualTime by = at - clock.now;
    if (by <= 0) return;
    clock.now = at;
    if (!is_alone(seat)) [[unlikely]]
      follow(seat.group, by);
  }
  // A member of its group is served: pass() to the least start of the members that could be served.
  void pass_to_least(RingSeat& seat) const LOCKSLEY_REQUIRES(kFairNodes) {
    pass(seat, is_alone(seat) ? time_to_pass(seat.level) : least_to_pass(seat.group));
  }
  // While something waits at a closed gate, the clocks count all charges. The levels there move on
  // with their clock (FairLevel::follow()): if a clock were computed from a settled node on such a
  // level, each of its steps would move that node, and so the clock again.
  bool counts_all_charges() const { return !gates_.closed().empty(); }
  VirtualTime time_to_pass(const RingLevel& level) const LOCKSLEY_REQUIRES(kFairNodes) {
    if (!level.top().fair.has_pending() || counts_all_charges()) return level.top_time();
    return level.time_to_pass();
  }
  VirtualTime key_to_pass(const FairNode& node) const LOCKSLEY_REQUIRES(kFairNodes) {
    return counts_all_charges() ? node.key : node.settled_key();
  }
  // Where the group's clock moves when one of its members is served (FairLevel::time_to_pass());
  // kNoStart: none can be.
  VirtualTime least_to_pass(const RingGroup& group) const LOCKSLEY_REQUIRES(kFairNodes);

  // ---- A turn was settled ----

  // A turn of the queue was settled that used `service`, and the queue is not ready: pass() to
  // FairLevel::settled_start(), for it and for all above it that are not ready.
  void pass_to_settled(const RingQueue& queue, std::int64_t service) LOCKSLEY_REQUIRES(kFairNodes);

  // ---- Large times are set back ----

  // Whether a key or a clock of the turn that the queue of `seat` has begun has reached
  // `set_back_at`.
  bool is_far(const RingSeat& seat, const RingQueue& queue) const LOCKSLEY_REQUIRES(kFairNodes) {
    const RingSeat& top = seat.parent == nullptr ? seat : *seat.parent;
    return std::max(std::max(clock_.now, top.fair.key), std::max(seat.group.clock.now, queue.fair.key)) >=
           set_back_at_;
  }
  // Whether the times of the level's clock, or the keys of its nodes, are so great that they are
  // set back. The keys alone are, where a restricted claim has moved the level back again and again
  // while its clock stood (ServiceOrder::limit_leads()).
  bool is_far(const RingLevel& level) const LOCKSLEY_REQUIRES(kFairNodes) {
    return std::max(level.clock().now, level.now()) >= set_back_at_;
  }
  bool is_tenants_far() const LOCKSLEY_REQUIRES(kFairNodes);
  // The clock of the tenants and the levels at all gates. Returns by how much the clock was set
  // back: the caller then does the same to the keys of all tenants (TenantBook::set_back()).
  VirtualTime set_back_tenants() LOCKSLEY_REQUIRES(kFairNodes);
  // Sets back the times of the members of the group and of its tenant, where they are that large.
  // O(members).
  void set_back_members_above(RingGroup& busy) const LOCKSLEY_REQUIRES(kFairNodes);
  static void set_back_members(RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes);

 private:
  static void follow(RingGroup& group, VirtualTime by) LOCKSLEY_REQUIRES(kFairNodes);
  // Whether no other seat of the group is active, and the gate is open.
  static bool is_alone(const RingSeat& seat) LOCKSLEY_REQUIRES(kFairNodes) {
    return seat.group.active() <= 1 && seat.gate.is_open();
  }
  // The least start of those members of the group, or of those tenants, that could be served;
  // kNoStart: none.
  static VirtualTime least_start(const RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes);
  VirtualTime least_start() const LOCKSLEY_REQUIRES(kFairNodes);

  FairClock clock_ LOCKSLEY_GUARDED_BY(kFairNodes);
  const RingGates& gates_;
  const VirtualTime set_back_at_;
};

}  // namespace locksley
