#include "core/ring/parts/service_order.h"

#include <algorithm>

#include "core/fair/fair_level.h"

namespace locksley {

// ---- Who is next ----

RingSeat* ServiceOrder::first_seat(const Choice& choice, Look& look) const {
  RingSeat* first = nullptr;
  const RingSeat* least = nullptr;  // of all, whatever the claim may serve
  look = {.pass_to = RingClocks::kNoStart};
  for (RingGate* const gate : gates_.open()) {
    gate->level.forgive_excess();
    if (const VirtualTime start = gate->level.top_time(); start < look.pass_to) {
      look.pass_to = start;
      least = &static_cast<RingSeat&>(gate->level.top());
    }
    if (choice.excludes(*gate)) {
      look.is_restricted = look.is_restricted || choice.is_left_to_others(*gate);
      continue;
    }
    auto* const seat = static_cast<RingSeat*>(first_on(gate->level, choice.filter));
    if (seat == nullptr) continue;
    if (first == nullptr || start_of(gate->level, *seat) < start_of(first->gate.level, *first)) first = seat;
  }
  if (least->fair.has_pending() && !clocks_.counts_all_charges() && is_alone_at_open_gates(least->group))
    look.pass_to = least->gate.level.time_of(least->fair.settled_key());
  if (first == nullptr || first->group.active() == 1) return first;
  // If the tenant is the first at several gates, its own members decide which gate serves it.
  // Otherwise a member that is a little further at one gate than at another would not be served
  // there.
  RingSeat* chosen = first;
  for (RingGate* const gate : gates_.open()) {
    auto* const seat =
        choice.excludes(*gate) ? nullptr : static_cast<RingSeat*>(first_on(gate->level, choice.filter));
    if (seat == nullptr || &seat->group != &first->group) continue;
    if (seat->group.customers != nullptr) seat->level.forgive_excess();
    if (start_of(seat->level, *first_on(seat->level, choice.filter)) <
        start_of(chosen->level, *first_on(chosen->level, choice.filter))) {
      chosen = seat;
    }
  }
  return chosen;
}

RingSeat& ServiceOrder::first_customer(RingSeat& seat, const Choice& choice) const {
  const auto first_of = [&](const RingSeat& tenants) LOCKSLEY_REQUIRES(kFairNodes) {
    return static_cast<RingSeat*>(first_on(tenants.level, choice.filter));
  };
  RingSeat* chosen = first_of(seat);
  const RingGroup& customer = chosen->group;
  if (gates_.open().size() == 1 || customer.active() == 1) return *chosen;
  // As in first_seat(), one level below: of the gates where tenant and customer are the first ones,
  // that where the customer's first queue has the least start.
  for (RingGate* const gate : gates_.open()) {
    const auto* const other =
        choice.excludes(*gate) ? nullptr : static_cast<RingSeat*>(first_on(gate->level, choice.filter));
    if (other == nullptr || &other->group != &seat.group) continue;
    RingSeat* const there = first_of(*other);
    if (&there->group != &customer) continue;
    if (start_of(there->level, first_queue(*there, choice.filter)) <
        start_of(chosen->level, first_queue(*chosen, choice.filter))) {
      chosen = there;
    }
  }
  return *chosen;
}

// ---- What runs ahead ----

void ServiceOrder::note_excess(RingSeat& seat, const TurnService& service) const {
  const bool is_alone = gates_.at_most_one_waits();
  for (RingSeat* each = &seat; each != nullptr; each = each->parent) {
    if (is_alone) {
      each->home().clear_excess();
    } else {
      each->home().note_excess(service.at_gate - service.in_lane);
    }
  }
}

// The executor of a restricted claim cannot serve some gates where queues wait. The clock stays
// with the queues there, so the nodes at the gates within reach run ahead of it. An executor that
// serves all gates then serves the others first; but the nodes within reach owe them no more than
// one such turn of each executor. So if the least start within reach is further ahead, all levels
// within reach move back together, which keeps the distances between them. If each level were
// limited by its own turns, gates with short turns would always come before those with long ones.
void ServiceOrder::limit_leads(RingSeat& seat, const RingQueue& queue, std::int64_t service,
                               std::uint32_t executors, const Choice& choice, Nanoseconds now) {
  const auto limit = [&](const RingGroup* group, VirtualTime clock,
                         const FairNode& served) LOCKSLEY_REQUIRES(kFairNodes) {
    VirtualTime least = RingClocks::kNoStart;
    for_each_level(group, [&](const RingGate& gate, const RingLevel& level) LOCKSLEY_REQUIRES(kFairNodes) {
      if (!level.empty() && !choice.is_left_to_others(gate)) least = std::min(least, level.top_time());
    });
    const VirtualTime most = RingLevel::kMostService / executors;
    const VirtualTime allowed = std::min(RingLevel::charge_of(served, service), most) * executors;
    const VirtualTime by = least - clock - allowed;
    if (by <= 0) return;
    for_each_level(group, [&](const RingGate& gate, RingLevel& level) LOCKSLEY_REQUIRES(kFairNodes) {
      if (!choice.is_out_of_reach(gate)) level.forgive_lead(by, now);
    });
    leads_forgiven_at_ = now;
  };
  const RingNode* served = &queue;
  for (RingSeat* each = &seat; each != nullptr; each = each->parent) {
    limit(&each->group, each->group.clock.now, served->fair);
    served = each;
  }
  limit(nullptr, clocks_.of_tenants().now, served->fair);
  for (RingSeat* each = &seat; each != nullptr; each = each->parent) each->group.limit_key(*each);
}

void ServiceOrder::restore_leads(const RingQueue& queue, const Charge& charged, std::int64_t service) const {
  const RingSeat& seat = *queue.seat_;
  const auto restore = [&](const RingGroup* group, VirtualTime amount,
                           const FairNode& served) LOCKSLEY_REQUIRES(kFairNodes) {
    const VirtualTime unused = amount - RingLevel::charge_of(served, service);
    if (unused <= 0) return;
    VirtualTime by = 0;
    for_each_level(group, [&](const RingGate&, const RingLevel& level) LOCKSLEY_REQUIRES(kFairNodes) {
      by = std::max(by, level.wrongly_forgiven(charged.began));
    });
    by = std::min(by, unused);
    if (by == 0) return;
    for_each_level(group, [&](const RingGate&, RingLevel& level)
                              LOCKSLEY_REQUIRES(kFairNodes) { level.restore_lead(by, charged.began); });
  };
  restore(&seat.group, charged.queue, queue.fair);
  if (charged.is_of_customer()) restore(&seat.parent->group, charged.group.amount, seat.fair);
  const FairCharge& of_tenant = charged.is_of_customer() ? charged.tenant : charged.group;
  restore(nullptr, of_tenant.amount, seat.parent == nullptr ? seat.fair : seat.parent->fair);
}

bool ServiceOrder::is_alone_at_open_gates(const RingGroup& tenant) const {
  return std::ranges::all_of(gates_.open(), [&](const RingGate* gate) LOCKSLEY_REQUIRES(kFairNodes) {
    return gate->level.has_one() && &static_cast<RingSeat&>(gate->level.top()).group == &tenant;
  });
}

}  // namespace locksley
