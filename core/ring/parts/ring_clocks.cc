#include "core/ring/parts/ring_clocks.h"

#include <algorithm>

#include "core/fair/fair_level.h"

namespace locksley {

VirtualTime RingClocks::least_to_pass(const RingGroup& group) const {
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

void RingClocks::pass_to_settled(const RingQueue& queue, std::int64_t service) {
  RingSeat* seat = queue.seat_;
  pass(*seat, std::min(seat->level.settled_start(queue, service), least_start(seat->group)));
  while (!seat->group.has_ready()) {
    const VirtualTime start = seat->home().settled_start(*seat, service);
    if (seat->parent == nullptr) return pass(std::min(start, least_start()));
    seat = seat->parent;
    pass(*seat, std::min(start, least_start(seat->group)));
  }
}

bool RingClocks::is_tenants_far() const {
  return std::ranges::any_of(gates_.all(), [this](const auto& gate) LOCKSLEY_REQUIRES(kFairNodes) {
    return gate != nullptr && is_far(gate->level);
  });
}

VirtualTime RingClocks::set_back_tenants() {
  for (const auto& gate : gates_.all()) {
    if (gate != nullptr) gate->level.set_back();
  }
  return clock_.set_back();
}

void RingClocks::set_back_members_above(RingGroup& busy) const {
  for (RingGroup* group = &busy; group != nullptr; group = group->tenant) {
    const auto is_part_far = [this](const auto& part)
                                 LOCKSLEY_REQUIRES(kFairNodes) { return is_far(part->level); };
    if (std::ranges::any_of(group->parts, is_part_far)) set_back_members(*group);
  }
}

void RingClocks::set_back_members(RingGroup& group) {
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

void RingClocks::follow(RingGroup& group, VirtualTime by) {
  for (const auto& seat : group.parts) {
    if (!seat->gate.is_open()) seat->level.follow(by);
  }
}

VirtualTime RingClocks::least_start(const RingGroup& group) {
  VirtualTime least = kNoStart;
  for (const auto& seat : group.parts) {
    if (!seat->level.empty() && seat->gate.is_open()) least = std::min(least, seat->level.top_time());
  }
  return least;
}

VirtualTime RingClocks::least_start() const {
  VirtualTime least = kNoStart;
  for (const RingGate* const gate : gates_.open()) least = std::min(least, gate->level.top_time());
  return least;
}

}  // namespace locksley
