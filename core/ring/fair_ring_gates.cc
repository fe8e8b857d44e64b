#include "core/ring/fair_ring_gates.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace locksley {

std::optional<GateId> FairRing::Gates::add(const GateOptions& options) {
  const RingLock lock(ring_.mutex_);
  return ring_.gates_.add(options, ring_.clocks_.of_tenants());
}

bool FairRing::Gates::remove(GateId id) {
  const RingLock lock(ring_.mutex_);
  RingGate& gate = ring_.gates_.at(id);
  if (id == 0 || gate.queues != 0) return false;
  for (const StartAnewWalk* walk = ring_.walks_; walk != nullptr; walk = walk->other_) {
    if (walk->gate_ == &gate) return false;
  }
  ring_.book_.for_each_group([&](RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes) {
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

void FairRing::Gates::set_start_cost(GateId id, Nanoseconds start_cost) {
  start_cost = std::max(start_cost, Nanoseconds{0});
  {
    const RingLock lock(ring_.mutex_);
    RingGate& gate = ring_.gates_.at(id);
    if (start_cost == gate.options.start_cost) return;
    gate.options.start_cost = start_cost;
    gate.level.clear_excess();
  }
  // A thread that waits for the mutex gets it only if this one does not take it again at once.
  constexpr auto kPause = std::chrono::microseconds(50);
  for (StartAnewWalk walk(ring_, id); !walk.go_on();) std::this_thread::sleep_for(kPause);
}

// ---- Starting anew ----

FairRing::StartAnewWalk::StartAnewWalk(FairRing& ring, GateId gate) : ring_(ring) {
  const RingLock lock(ring_.mutex_);
  gate_ = &ring_.gates_.at(gate);
  other_ = std::exchange(ring_.walks_, this);
}

FairRing::StartAnewWalk::~StartAnewWalk() {
  const RingLock lock(ring_.mutex_);
  StartAnewWalk** place = &ring_.walks_;
  while (*place != this) place = &(*place)->other_;
  *place = other_;
}

bool FairRing::StartAnewWalk::go_on() {
  const RingLock lock(ring_.mutex_);
  for (std::size_t nodes = 0; nodes < kAtOnce; ++nodes) {
    if (queue_ != nullptr) {
      RingQueue& queue = *std::exchange(queue_, queue_->next_);
      if (&queue.seat_->gate == gate_) queue.seat_->level.start_anew(queue);
      continue;
    }
    RingGroup* const group = next_group();
    if (group == nullptr) {
      ring_.book_.forget_tenants();
      return true;
    }
    start_anew(*group);
    queue_ = group->first;
  }
  return false;
}

RingGroup* FairRing::StartAnewWalk::next_group() {
  const TenantBook::Tenants& tenants = ring_.book_.tenants();
  auto tenant = tenant_ ? tenants.find(*tenant_) : tenants.end();
  if (tenant != tenants.end() && tenant->second->customers != nullptr) {
    // If the tenant got its first customers during its turn, its queues come once more, as those of
    // the customer without a name.
    const auto& by_name = tenant->second->customers->by_name;
    const auto customer = customer_ ? by_name.upper_bound(*customer_) : by_name.begin();
    if (customer != by_name.end()) {
      customer_ = customer->first;
      return customer->second.get();
    }
  }
  tenant = tenant_ ? tenants.upper_bound(*tenant_) : tenants.begin();
  if (tenant == tenants.end()) return nullptr;
  tenant_ = tenant->first;
  customer_.reset();
  return tenant->second.get();
}

void FairRing::StartAnewWalk::start_anew(RingGroup& group) {
  for (const auto& seat : group.parts) {
    if (&seat->gate != gate_) continue;
    group.start_anew(*seat);
    seat->level.clear_excess();
  }
  ring_.book_.update_idle(group);
}

}  // namespace locksley
