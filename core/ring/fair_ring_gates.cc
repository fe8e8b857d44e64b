#include "core/ring/fair_ring_gates.h"

#include <algorithm>

namespace locksley {

std::optional<GateId> FairRing::Gates::add(const GateOptions& options) {
  const RingLock lock(ring_.mutex_);
  return ring_.gates_.add(options, ring_.clock_);
}

bool FairRing::Gates::remove(GateId id) {
  const RingLock lock(ring_.mutex_);
  RingGate& gate = ring_.gates_.at(id);
  if (id == 0 || gate.queues != 0) return false;
  ring_.for_each_group([&](RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes) {
    const auto seat =
        std::ranges::find_if(group.parts, [&](const auto& each) { return &each->gate == &gate; });
    if (seat != group.parts.end()) group.remove(**seat);
  });
  ring_.gates_.remove(id);
  return true;
}

template <class Change>
void FairRing::Gates::change(GateId id, Change apply) {
  const RingLock lock(ring_.mutex_);
  RingGate& gate = ring_.gates_.at(id);
  const std::uint32_t before = gate.ready;
  apply(gate.options);
  gate.update_limits();
  ring_.gates_.update_lists(gate);
  if ((gate.ready & ~before) != 0) ring_.hints_.count_arrival();
  ring_.publish();
}

void FairRing::Gates::set_concurrency(GateId id, std::uint32_t concurrency) {
  change(id, [&](GateOptions& options) { options.concurrency = concurrency; });
}

void FairRing::Gates::set_switch(GateId id, bool is_on) {
  change(id, [&](GateOptions& options) { options.is_on = is_on; });
}

void FairRing::Gates::set_max_running(GateId id, std::uint32_t most) {
  change(id, [&](GateOptions& options) { options.max_running = most; });
}

void FairRing::Gates::set_remote(GateId id, bool is_remote) {
  change(id, [&](GateOptions& options) { options.is_remote = is_remote; });
}

void FairRing::Gates::set_hold(GateId id, bool is_held) {
  change(id, [&](GateOptions& options) { options.is_held = is_held; });
}

void FairRing::Gates::set_largest_claim(GateId id, std::uint64_t most) {
  change(id, [&](GateOptions& options) { options.largest_claim = most; });
}

void FairRing::Gates::set_start_cost(Nanoseconds start_cost, GateId id) {
  const RingLock lock(ring_.mutex_);
  RingGate& gate = ring_.gates_.at(id);
  start_cost = std::max(start_cost, Nanoseconds{0});
  if (start_cost == gate.options.start_cost) return;
  gate.options.start_cost = start_cost;
  gate.level.clear_excess();
  ring_.for_each_queue([&](RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes) {
    if (&queue.seat_->gate == &gate) queue.seat_->level.start_anew(queue);
  });
  IdleGroups& idle_tenants = ring_.idle_;
  ring_.for_each_group([&](RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes) {
    for (const auto& seat : group.parts) {
      if (&seat->gate != &gate) continue;
      group.start_anew(*seat);
      seat->level.clear_excess();
    }
    if (group.queues != 0 || group.is_resting) return;
    IdleGroups& idle = group.tenant == nullptr ? idle_tenants : group.tenant->customers->idle;
    idle.update(group, group.fair.key);
  });
  ring_.remove_idle_tenants();
}

}  // namespace locksley
