// Which of the queues that wait is next, and how far those that a restricted claim serves may run
// ahead of the others.
#pragma once

#include <cstdint>

#include "core/fair/fair_node.h"
#include "core/ring/parts/ring_clocks.h"
#include "core/ring/parts/turn_costs.h"
#include "core/ring/state/ring_claim.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_gates.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_node.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// The order in which the queues of a ring are served: by the least start, of the tenants first,
// then of the customers of that tenant, then of the queues. A claim that may not serve all gates
// takes the least start within its reach; the queues within its reach may run ahead of the others
// only by a limited amount.
//
// A member of the ring, guarded by its mutex. Borrows the gates and the clocks. O(gates where
// queues wait). Nothing blocks or fails.
class ServiceOrder {
 public:
  ServiceOrder(const RingGates& gates, const RingClocks& clocks) : gates_(gates), clocks_(clocks) {}
  ServiceOrder(const ServiceOrder&) = delete;
  ServiceOrder& operator=(const ServiceOrder&) = delete;

  // Which queues a claim may serve, and at which gates. A plain value, as long as its claim.
  struct Choice {
    ClaimFilter filter;
    const GateSet* gates;
    Site site;
    bool excludes(const RingGate& gate) const LOCKSLEY_REQUIRES(kFairNodes) {
      return (gate.admits & RingGate::admitting(site)) == 0 || (gates != nullptr && !gates->has(gate.id));
    }
    // The executor never serves the gate, open or not.
    bool is_out_of_reach(const RingGate& gate) const LOCKSLEY_REQUIRES(kFairNodes) {
      const bool is_of_site = site == Site::kLocal ? gate.options.is_on : gate.options.is_remote;
      return !is_of_site || (gates != nullptr && gates->restriction() == GateSet::Restriction::kLasting &&
                             !gates->has(gate.id));
    }
    // The executor never serves the gate, or the gate does not admit it now; but other executors
    // may serve the gate now.
    bool is_left_to_others(const RingGate& gate) const LOCKSLEY_REQUIRES(kFairNodes) {
      return is_out_of_reach(gate) || (gate.admits & RingGate::admitting(site)) == 0;
    }
  };
  // The result of a claim's search at the open gates.
  struct Look {
    VirtualTime pass_to = 0;     // to which the clock moves: FairLevel::time_to_pass()
    bool is_restricted = false;  // a gate is left to other executors (Choice)
  };

  // ---- Who is next ----

  // The seat of the tenant that is next; null: none.
  RingSeat* first_tenant(const Choice& choice, Look& look) const LOCKSLEY_REQUIRES(kFairNodes) {
    const auto& open = gates_.open();
    if (open.size() != 1) return open.empty() ? nullptr : first_seat(choice, look);
    const RingGate& gate = *open.front();
    if (choice.excludes(gate)) return nullptr;
    auto* const seat = static_cast<RingSeat*>(first_on(gate.level, choice.filter));
    look = {.pass_to = clocks_.time_to_pass(gate.level)};
    return seat;
  }
  // The seat of the customer that is next, below the tenant's seat that first_tenant() returned.
  RingSeat& first_customer(RingSeat& seat, const Choice& choice) const LOCKSLEY_REQUIRES(kFairNodes);
  static RingQueue& first_queue(const RingSeat& seat, ClaimFilter filter) LOCKSLEY_REQUIRES(kFairNodes) {
    return static_cast<RingQueue&>(filter == ClaimFilter::kAny ? seat.level.top() : seat.level.top_brief());
  }
  // The key of a ready node, with its start on the clock of its level.
  static FairKey start_of(const RingLevel& level, const RingNode& node) LOCKSLEY_REQUIRES(kFairNodes) {
    FairKey key(node.fair);
    key.start = level.time_of(key.start);
    return key;
  }

  // ---- What runs ahead ----

  // A turn at the seat was charged more at its gate than it used in the lane: FairLevel's excess.
  void note_excess(RingSeat& seat, const TurnService& service) const LOCKSLEY_REQUIRES(kFairNodes);
  // For a restricted claim that is about to serve this queue, with `service` for each executor:
  // limits how far the nodes within its reach are ahead of the others. `executors`: of the ring.
  void limit_leads(RingSeat& seat, const RingQueue& queue, std::int64_t service, std::uint32_t executors,
                   const Choice& choice, Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes);
  // Whether limit_leads() has moved levels back since a turn began at `began`.
  bool has_forgiven_since(Nanoseconds began) const LOCKSLEY_REQUIRES(kFairNodes) {
    return began <= leads_forgiven_at_;
  }
  // A turn of the queue was settled that used `service`. If it was charged more, and limit_leads()
  // forgave the excess, takes back the part that would be a credit (FairLevel::restore_lead()).
  void restore_leads(const RingQueue& queue, const Charge& charged, std::int64_t service) const
      LOCKSLEY_REQUIRES(kFairNodes);

 private:
  // The one with the least start of the first seats of all open gates; null: none.
  RingSeat* first_seat(const Choice& choice, Look& look) const LOCKSLEY_REQUIRES(kFairNodes);
  // Null: the filter admits none.
  static RingNode* first_on(const RingLevel& level, ClaimFilter filter) LOCKSLEY_REQUIRES(kFairNodes) {
    if (filter == ClaimFilter::kAny) return &level.top();
    return level.has_brief() ? &level.top_brief() : nullptr;
  }
  // Whether no other tenant has ready nodes at the open gates.
  bool is_alone_at_open_gates(const RingGroup& tenant) const LOCKSLEY_REQUIRES(kFairNodes);
  // Calls visit(gate, level) for each level on which members of the group compete; null: tenants.
  template <class Visit>
  void for_each_level(const RingGroup* group, Visit visit) const LOCKSLEY_REQUIRES(kFairNodes) {
    if (group != nullptr) {
      for (const auto& part : group->parts) visit(part->gate, part->level);
      return;
    }
    for (const auto& gate : gates_.all()) {
      if (gate != nullptr) visit(*gate, gate->level);
    }
  }

  const RingGates& gates_;
  const RingClocks& clocks_;
  // When limit_leads() last moved levels back; it has no effect on turns that began later.
  Nanoseconds leads_forgiven_at_ LOCKSLEY_GUARDED_BY(kFairNodes){-1};
};

}  // namespace locksley
