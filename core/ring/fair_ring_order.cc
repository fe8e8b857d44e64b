// Which of the queues that wait is next, and how the clocks pass for those that cannot be served.
#include <algorithm>
#include <limits>

#include "core/ring/fair_ring.h"

namespace locksley {

// ---- Who is next ----

RingSeat* FairRing::next_seat(const Choice& choice, Look& look) {
  while (!gates_.open().empty()) {
    RingSeat* seat = nullptr;
    if (gates_.open().size() == 1) {
      const RingGate& gate = *gates_.open().front();
      if (choice.excludes(gate)) return nullptr;
      seat = static_cast<RingSeat*>(first_on(gate.level, choice.filter));
      look = {.pass_to = time_to_pass(gate.level)};
    } else {
      seat = first_seat(choice, look);
    }
    if (seat == nullptr) return nullptr;
    RingGroup& tenant = seat->group;
    if (tenant.results == nullptr || !tenant.results->is_full_and_awaited())
      return tenant.customers == nullptr ? seat : &first_customer(*seat, choice);
    set_blocks(tenant, tenant.blocks | RingGroup::kFull);
    ++shut_tenants_;
    refresh(tenant);
  }
  return nullptr;
}

RingSeat* FairRing::pass_over_lengthy(RingSeat* next, const Choice& choice, Look& look, Nanoseconds now) {
  // More of them wait for the next claim.
  constexpr int kMost = 64;  // a guess: some microseconds
  for (int count = 0; next != nullptr; ++count) {
    RingQueue& queue = first_queue(*next, choice.filter);
    if (costs_.length_of(queue) == JobLength::kBrief) break;
    if (count == kMost) return nullptr;
    refresh(queue, now);
    next = next_seat(choice, look);
  }
  return next;
}

RingSeat* FairRing::first_seat(const Choice& choice, Look& look) {
  RingSeat* first = nullptr;
  const RingSeat* least = nullptr;  // of all, whatever the claim may serve
  look = {.pass_to = kNoStart};
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
  if (least->fair.has_pending() && !counts_all_charges() && is_alone_at_open_gates(least->group))
    look.pass_to = least->gate.level.time_of(least->fair.settled_key());
  if (first == nullptr || first->group.active() == 1) return first;
  // Where the tenant is the first at several gates, its own members decide which gate serves it:
  // else a member that is a little further at one gate than at another would not be served there.
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

RingSeat& FairRing::first_customer(RingSeat& seat, const Choice& choice) {
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

// ---- Clocks ----

void FairRing::note_excess(RingSeat& seat, const TurnService& service) {
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
void FairRing::limit_leads(RingSeat& seat, const RingQueue& queue, std::int64_t service, const Choice& choice,
                           Nanoseconds now) {
  const auto limit = [&](const RingGroup* group, VirtualTime clock, const FairNode& served) LOCKSLEY_REQUIRES(
                         mutex_, kFairNodes) {
    VirtualTime least = kNoStart;
    for_each_level(group, [&](const RingGate& gate, const RingLevel& level) LOCKSLEY_REQUIRES(kFairNodes) {
      if (!level.empty() && !choice.is_left_to_others(gate)) least = std::min(least, level.top_time());
    });
    const VirtualTime most = RingLevel::kMostService / costs_.parallelism();
    const VirtualTime allowed = std::min(RingLevel::charge_of(served, service), most) * costs_.parallelism();
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
  limit(nullptr, clock_.now, served->fair);
  for (RingSeat* each = &seat; each != nullptr; each = each->parent) each->group.limit_key(*each);
}

void FairRing::restore_leads(const RingQueue& queue, const Settlement& settlement) {
  const RingSeat& seat = *queue.seat_;
  const Charge& charged = settlement.charged;
  const std::int64_t service = costs_.service_of(seat.gate, settlement).in_lane;
  const auto restore = [&](const RingGroup* group, VirtualTime amount,
                           const FairNode& served) LOCKSLEY_REQUIRES(mutex_, kFairNodes) {
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

void FairRing::follow(RingGroup& group, VirtualTime by) {
  for (const auto& seat : group.parts) {
    if (!seat->gate.is_open()) seat->level.follow(by);
  }
}

bool FairRing::is_alone_at_open_gates(const RingGroup& tenant) const {
  return std::ranges::all_of(gates_.open(), [&](const RingGate* gate) LOCKSLEY_REQUIRES(kFairNodes) {
    return gate->level.has_one() && &static_cast<RingSeat&>(gate->level.top()).group == &tenant;
  });
}

VirtualTime FairRing::least_start(const RingGroup& group) {
  VirtualTime least = kNoStart;
  for (const auto& seat : group.parts) {
    if (!seat->level.empty() && seat->gate.is_open()) least = std::min(least, seat->level.top_time());
  }
  return least;
}

VirtualTime FairRing::least_start() const {
  VirtualTime least = kNoStart;
  for (const RingGate* const gate : gates_.open()) least = std::min(least, gate->level.top_time());
  return least;
}

void FairRing::pass_to_settled(const RingQueue& queue, std::int64_t service) {
  RingSeat* seat = queue.seat_;
  pass(*seat, std::min(seat->level.settled_start(queue, service), least_start(seat->group)));
  while (!seat->group.has_ready()) {
    const VirtualTime start = seat->home().settled_start(*seat, service);
    if (seat->parent == nullptr) return pass(std::min(start, least_start()));
    seat = seat->parent;
    pass(*seat, std::min(start, least_start(seat->group)));
  }
}

VirtualTime FairRing::least_to_pass(const RingGroup& group) const {
  // A queue has one node, and a customer one at each of its gates.
  const auto member_of = [&](RingNode& node) LOCKSLEY_REQUIRES(kFairNodes) -> const void* {
    if (group.customers == nullptr) return &node;
    return &static_cast<RingSeat&>(node).group;
  };
  const auto could_be_served = [](const RingSeat& seat) LOCKSLEY_REQUIRES(kFairNodes) {
    return !seat.level.empty() && seat.gate.is_open();
  };
  VirtualTime least = kNoStart;
  RingNode* first = nullptr;
  for (const auto& seat : group.parts) {
    if (!could_be_served(*seat) || seat->level.top_time() >= least) continue;
    least = seat->level.top_time();
    first = &seat->level.top();
  }
  if (first == nullptr || !first->fair.has_pending() || counts_all_charges()) return least;
  const bool is_alone = std::ranges::all_of(group.parts, [&](const auto& seat) LOCKSLEY_REQUIRES(kFairNodes) {
    return !could_be_served(*seat) ||
           (seat->level.has_one() && member_of(seat->level.top()) == member_of(*first));
  });
  return is_alone ? least - (first->fair.key - first->fair.settled_key()) : least;
}

void FairRing::set_back_clocks(RingGroup& busy) {
  const auto is_gate_far = [this](const auto& gate) LOCKSLEY_REQUIRES(mutex_, kFairNodes) {
    return gate != nullptr && is_far(gate->level);
  };
  if (std::ranges::any_of(gates_.all(), is_gate_far)) {
    for (const auto& gate : gates_.all()) {
      if (gate != nullptr) gate->level.set_back();
    }
    const VirtualTime by = clock_.set_back();
    for (const auto& [name, tenant] : tenants_) {
      tenant->fair.key = RingLevel::set_back(tenant->fair.key, by);
      for (const auto& seat : tenant->parts) seat->home().set_back(*seat);
    }
    idle_.change_keys([by](VirtualTime key) { return RingLevel::set_back(key, by); });
  }
  for (RingGroup* group = &busy; group != nullptr; group = group->tenant) {
    const auto is_part_far = [this](const auto& part)
                                 LOCKSLEY_REQUIRES(mutex_, kFairNodes) { return is_far(part->level); };
    if (std::ranges::any_of(group->parts, is_part_far)) set_back_members(*group);
  }
}

void FairRing::set_back_members(RingGroup& group) {
  for (const auto& seat : group.parts) seat->level.set_back();
  const VirtualTime by = group.clock.set_back();
  for (RingQueue* queue = group.first; queue != nullptr; queue = queue->next_)
    queue->seat_->level.set_back(*queue);
  if (group.customers == nullptr) return;
  for (const auto& [name, customer] : group.customers->by_name) {
    customer->fair.key = RingLevel::set_back(customer->fair.key, by);
    for (const auto& seat : customer->parts) seat->home().set_back(*seat);
  }
  group.customers->idle.change_keys([by](VirtualTime key) { return RingLevel::set_back(key, by); });
}

}  // namespace locksley
