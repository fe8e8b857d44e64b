// The standings of a ring's tenants and customers: which may be served, and how much service is due
// to each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/job.h"
#include "core/fair/fair_competitor.h"
#include "core/ring/parts/ring_clocks.h"
#include "core/ring/parts/running_turns.h"
#include "core/ring/parts/tenant_book.h"
#include "core/ring/parts/turn_costs.h"
#include "core/ring/state/due_service.h"
#include "core/ring/state/group_limits.h"
#include "core/ring/state/ring_claim.h"
#include "core/ring/state/ring_gates.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"
#include "core/ring/state/ring_waits.h"

namespace locksley {

// Applies the limits of groups: caps in slots, rates, and accounts of results. After a change it
// brings a seat, its group and all above it up to date: whether they are ready on their levels,
// whether they compete, whether they wait for their rate, and whether their gate has queues that
// wait. It also applies the effects of a turn to groups with limits, and to the tenant of a
// customer.
//
// A member of the ring, guarded by its mutex. Borrows the other parts that its constructor takes.
// Costs as with FairRing. Nothing blocks; only allocation fails.
class GroupStandings {
 public:
  GroupStandings(TenantBook& book, RingGates& gates, RingClocks& clocks, RingWaits& waits,
                 const RunningTurns& turns)
      : book_(book), gates_(gates), clocks_(clocks), waits_(waits), turns_(turns) {}
  GroupStandings(const GroupStandings&) = delete;
  GroupStandings& operator=(const GroupStandings&) = delete;

  // ---- Time: what a rate admits depends on it ----

  // A call of the ring has passed `now`. Returns latest().
  Nanoseconds advance(Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes) {
    latest_ = std::max(latest_, now);
    return latest_;
  }
  // The greatest `now` of all calls.
  Nanoseconds latest() const LOCKSLEY_REQUIRES(kFairNodes) { return latest_; }

  // ---- Queues come and leave ----

  // The seat, at the gate, of the group that has the queues of this tenant and customer; made if
  // there is none. The caller attaches a queue to it.
  RingSeat& enter(const std::string& tenant, const std::string& customer, RingGate& gate)
      LOCKSLEY_REQUIRES(kFairNodes);
  // Counts `by` more queues like this one in the group and in its tenant; modulo 2^64.
  static void change_queues(RingGroup& group, const RingQueue& queue, std::uint64_t by)
      LOCKSLEY_REQUIRES(kFairNodes);
  // The group's last queue has left; perhaps it was the tenant's last one, too.
  void rest(RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes);
  // Customers become the members of a tenant whose members were queues; the queues become those of
  // customer "". Returns the tenant, which is another object now.
  RingGroup& split(RingGroup& tenant) LOCKSLEY_REQUIRES(kFairNodes);

  // ---- Limits ----

  // Sets the limits of a group in the book, and updates it.
  void change_limits(RingGroup& group, const GroupLimits& limits, Nanoseconds now)
      LOCKSLEY_REQUIRES(kFairNodes);
  // The tenant's account of results is full: none of its queues is served until reopen().
  void shut(RingGroup& tenant) LOCKSLEY_REQUIRES(kFairNodes);
  // Opens the tenants whose accounts have room again. Returns whether there was one. O(tenants) if
  // one is shut.
  bool reopen() LOCKSLEY_REQUIRES(kFairNodes);

  // ---- After a change ----

  // Update heaps and sums after any change of the group, or of the seat.
  void refresh(RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes);
  void refresh(RingSeat& seat) LOCKSLEY_REQUIRES(kFairNodes);
  // Whether the groups of the seat and above have no blocks, and will have none.
  bool stays_open(const RingSeat& seat) const LOCKSLEY_REQUIRES(kFairNodes);

  // ---- Turns ----

  // The effects of a turn on groups with limits, and on the tenant of a customer: before a claim is
  // charged, as the turn begins, and as it ends. prepare_above() returns how many jobs the limits
  // allow, at least one. begin_above(): `jobs` were claimed, and are expected to take `service`;
  // none: the executor joins. end_above() returns what the queue's group was charged.
  std::uint64_t prepare_above(RingSeat& seat, const RingQueue& queue, Nanoseconds now) const
      LOCKSLEY_REQUIRES(kFairNodes);
  void begin_above(RingSeat& seat, Charge& charged, std::uint64_t jobs, std::optional<std::int64_t> service,
                   Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes);
  static FairCharge end_above(RingSeat& seat, const Settlement& settlement, TurnService service,
                              Nanoseconds received, Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes);

  // ---- What is due ----

  // The service of the lane, and of what is due to a tenant with customers.
  ServiceReading read_service(Nanoseconds now) const LOCKSLEY_REQUIRES(kFairNodes);
  static ServiceReading read_service(const RingGroup& tenant, const ServiceReading& lane, Nanoseconds now)
      LOCKSLEY_REQUIRES(kFairNodes);
  // The fraction of the lane that is due to the group now; 0 if it has nothing to run.
  double share_of(const RingGroup& group) const LOCKSLEY_REQUIRES(kFairNodes);

 private:
  RingGroup& group_of(const std::string& tenant, const std::string& customer) LOCKSLEY_REQUIRES(kFairNodes);
  static RingSeat& seat_of(RingGroup& group, RingGate& gate) LOCKSLEY_REQUIRES(kFairNodes);
  void set_limits(RingGroup& group, const GroupLimits& limits) LOCKSLEY_REQUIRES(kFairNodes);
  // The group is a tenant without limits and blocks: RingSeat::is_plain.
  static bool is_plain(const RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes);
  std::uint8_t blocks_now(const RingGroup& group) const LOCKSLEY_REQUIRES(kFairNodes);
  // Sets RingGroup::blocks and RingSeat::is_plain. The caller updates the heaps: refresh().
  static void set_blocks(RingGroup& group, std::uint8_t blocks) LOCKSLEY_REQUIRES(kFairNodes);
  // refresh() for a seat whose group has up-to-date blocks.
  void refresh_place(RingSeat& seat) LOCKSLEY_REQUIRES(kFairNodes);
  // Updates whether and until when the group waits for its rate.
  void update_wait(RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes);
  void set_competes(RingGroup& group, bool competes) LOCKSLEY_REQUIRES(kFairNodes) {
    if (group.fair.competes != competes) change_competes(group, competes);
  }
  void change_competes(RingGroup& group, bool competes) LOCKSLEY_REQUIRES(kFairNodes);
  void change_weight(RingGroup& group, std::uint32_t weight) LOCKSLEY_REQUIRES(kFairNodes);

  TenantBook& book_;
  RingGates& gates_;
  RingClocks& clocks_;
  RingWaits& waits_;
  const RunningTurns& turns_;
  Nanoseconds latest_ LOCKSLEY_GUARDED_BY(kFairNodes){};
  ServiceClock service_ LOCKSLEY_GUARDED_BY(kFairNodes);
  std::uint64_t shut_tenants_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
};

}  // namespace locksley
