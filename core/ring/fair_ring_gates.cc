// The gates of a ring, and which of them are open.
#include <algorithm>

#include "core/ring/fair_ring.h"

namespace locksley {

// ---- The owner's calls ----

std::optional<GateId> FairRing::add_gate(const GateOptions& options) {
  const RingLock lock(mutex_);
  return gates_.add(options, clock_);
}

bool FairRing::remove_gate(GateId id) {
  const RingLock lock(mutex_);
  RingGate& gate = gates_.at(id);
  if (id == 0 || gate.queues != 0) return false;
  for_each_group([&](RingGroup& group) LOCKSLEY_REQUIRES(kRingNodes) {
    const auto seat =
        std::ranges::find_if(group.parts, [&](const auto& each) { return &each->gate == &gate; });
    if (seat != group.parts.end()) group.remove(**seat);
  });
  gates_.remove(id);
  return true;
}

bool FairRing::has_queues(GateId gate) const {
  const RingLock lock(mutex_);
  return gates_.at(gate).queues != 0;
}

template <class Change>
void FairRing::change_gate(GateId id, Change change) {
  const RingLock lock(mutex_);
  RingGate& gate = gates_.at(id);
  const std::uint32_t before = gate.ready;
  change(gate.options);
  gate.update_limits();
  gates_.list(gate);
  if ((gate.ready & ~before) != 0) hints_.count_arrival();
  publish();
}

void FairRing::set_gate_concurrency(GateId id, std::uint32_t concurrency) {
  change_gate(id, [&](GateOptions& options) { options.concurrency = concurrency; });
}

void FairRing::set_gate_switch(GateId id, bool is_on) {
  change_gate(id, [&](GateOptions& options) { options.is_on = is_on; });
}

void FairRing::set_max_running(GateId id, std::uint32_t most) {
  change_gate(id, [&](GateOptions& options) { options.max_running = most; });
}

void FairRing::set_gate_remote(GateId id, bool is_remote) {
  change_gate(id, [&](GateOptions& options) { options.is_remote = is_remote; });
}

void FairRing::set_gate_hold(GateId id, bool is_held) {
  change_gate(id, [&](GateOptions& options) { options.is_held = is_held; });
}

void FairRing::set_gate_claim(GateId id, std::uint64_t most) {
  change_gate(id, [&](GateOptions& options) { options.largest_claim = most; });
}

void FairRing::set_start_cost(Nanoseconds start_cost, GateId id) {
  const RingLock lock(mutex_);
  RingGate& gate = gates_.at(id);
  start_cost = std::max(start_cost, Nanoseconds{0});
  if (start_cost == gate.options.start_cost) return;
  gate.options.start_cost = start_cost;
  gate.level.clear_excess();
  for_each_queue([&](RingQueue& queue) LOCKSLEY_REQUIRES(kRingNodes) {
    if (&queue.seat_->gate == &gate) queue.seat_->level.start_anew(queue);
  });
  for_each_group([&](RingGroup& group) LOCKSLEY_REQUIRES(mutex_, kRingNodes) {
    for (const auto& seat : group.parts) {
      if (&seat->gate != &gate) continue;
      group.start_anew(*seat);
      seat->level.clear_excess();
    }
    if (group.queues != 0) return;
    IdleGroups& idle = group.tenant == nullptr ? idle_ : group.tenant->customers->idle;
    idle.update(group, group.fair.key);
  });
  remove_idle_tenants();
}

}  // namespace locksley
