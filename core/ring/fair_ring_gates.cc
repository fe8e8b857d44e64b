// The gates of a ring: which are open, which of the tenants that wait at them is next, and how the clocks
// pass for those that cannot be served.
#include <algorithm>
#include <bit>
#include <limits>

#include "core/base/check.h"
#include "core/ring/fair_ring.h"

namespace locksley {

namespace {

bool has_one_of(const std::array<std::atomic<std::uint64_t>, GateSet::kWords>& ready, const GateSet& gates) {
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (const std::uint64_t word = gates.word(i); word != 0 && (ready[i].load() & word) != 0) return true;
  }
  return false;
}

}  // namespace

// ---- The owner's calls ----

std::optional<GateId> FairRing::add_gate(const GateOptions& options) {
  const RingLock lock(mutex_);
  const auto free = std::ranges::find_if(gates_, [](const auto& gate) { return gate == nullptr; });
  const auto id = static_cast<GateId>(free - gates_.begin());
  if (id == kMostGates) return std::nullopt;
  if (free == gates_.end()) {
    gates_.emplace_back();
    // So that no later call allocates.
    for (auto* list : {&open_, &closed_, &unpublished_}) list->reserve(gates_.size());
  }
  gates_[id] = std::make_unique<RingGate>(id, clock_, options);
  gates_[id]->options.start_cost = std::max(options.start_cost, Nanoseconds{0});
  return id;
}

bool FairRing::remove_gate(GateId id) {
  const RingLock lock(mutex_);
  RingGate& gate = gate_of(id);
  if (id == 0 || gate.queues != 0) return false;
  for (const auto& [name, tenant] : tenants_) {
    const auto seat =
        std::ranges::find_if(tenant->parts, [&](const auto& each) { return &each->gate == &gate; });
    if (seat != tenant->parts.end()) tenant->remove(**seat);
  }
  gates_[id] = nullptr;
  return true;
}

bool FairRing::has_queues(GateId gate) const {
  const RingLock lock(mutex_);
  return gate_of(gate).queues != 0;
}

template <class Change>
void FairRing::change_gate(GateId id, Change change) {
  const RingLock lock(mutex_);
  RingGate& gate = gate_of(id);
  const std::uint32_t before = gate.ready;
  change(gate.options);
  gate.update_limits();
  list(gate);
  // [ring-arrivals] relaxed: as in arrivals(); only the holder of the mutex writes.
  if ((gate.ready & ~before) != 0) arrivals_.fetch_add(1, std::memory_order_relaxed);
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
  RingGate& gate = gate_of(id);
  start_cost = std::max(start_cost, Nanoseconds{0});
  if (start_cost == gate.options.start_cost) return;
  gate.options.start_cost = start_cost;
  gate.excess = 0;
  for (const auto& [name, tenant] : tenants_) {
    for (RingQueue* queue = tenant->first; queue != nullptr; queue = queue->next_) {
      if (&queue->seat_->gate == &gate) queue->seat_->level.start_anew(*queue);
    }
    for (const auto& seat : tenant->parts) {
      if (&seat->gate == &gate) tenant->start_anew(*seat);
    }
    if (tenant->queues != 0) continue;
    idle_.remove(*tenant);
    idle_.push(*tenant, tenant->fair.key);
  }
  remove_idle_tenants();
}

// ---- Seats ----

RingGate& FairRing::gate_of(GateId id) const {
  check(id < gates_.size() && gates_[id] != nullptr, "a gate that the ring does not have");
  return *gates_[id];
}

RingSeat& FairRing::seat_of(RingTenant& tenant, GateId id) {
  RingGate& gate = gate_of(id);
  for (const auto& seat : tenant.parts) {
    if (&seat->gate == &gate) return *seat;
  }
  RingSeat& seat = *tenant.parts.emplace_back(std::make_unique<RingSeat>(tenant, tenant.clock, gate));
  seat.fair.key = gate.level.now();
  seat.fair.weight = tenant.fair.weight;
  seat.own.shifts = gate.level.shifts();
  return seat;
}

void FairRing::refresh(RingTenant& tenant) {
  for (const auto& seat : tenant.parts) refresh(*seat);
}

// ---- Who is next ----

RingSeat* FairRing::next_seat(ClaimFilter filter, const GateSet* gates, Site site, Look& look) {
  while (!open_.empty()) {
    RingSeat* seat = nullptr;
    if (open_.size() == 1) {
      const RingGate& gate = *open_.front();
      if (is_excluded(gate, gates, site)) return nullptr;
      seat = first_at(gate, filter);
      look.least = gate.level.top_time();
    } else {
      seat = first_seat(filter, gates, site, look);
    }
    if (seat == nullptr) return nullptr;
    RingTenant& tenant = seat->tenant;
    if (tenant.results == nullptr || !tenant.results->is_full_and_awaited()) return seat;
    tenant.is_shut = true;
    ++shut_tenants_;
    refresh(tenant);
  }
  return nullptr;
}

RingSeat* FairRing::first_seat(ClaimFilter filter, const GateSet* gates, Site site, Look& look) {
  RingSeat* first = nullptr;
  look = {.least = kNever};
  for (RingGate* const gate : open_) {
    if (gate->excess != 0) forgive_starts(*gate);
    look.least = std::min(look.least, gate->level.top_time());
    if (is_excluded(*gate, gates, site)) {
      look.is_restricted = true;
      continue;
    }
    RingSeat* const seat = first_at(*gate, filter);
    if (seat == nullptr) continue;
    if (first == nullptr || start_of(gate->level, *seat) < start_of(first->gate.level, *first)) first = seat;
  }
  if (first == nullptr || first->tenant.active() == 1) return first;
  // The tenant's own queues decide at which of the gates where it is the first: else one that is a little further at
  // one gate than at another would not be served there.
  RingSeat* chosen = first;
  for (RingGate* const gate : open_) {
    RingSeat* const seat = is_excluded(*gate, gates, site) ? nullptr : first_at(*gate, filter);
    if (seat == nullptr || &seat->tenant != &first->tenant) continue;
    if (start_of(seat->level, first_queue(*seat, filter)) <
        start_of(chosen->level, first_queue(*chosen, filter))) {
      chosen = seat;
    }
  }
  return chosen;
}

RingSeat* FairRing::first_at(const RingGate& gate, ClaimFilter filter) {
  if (filter == ClaimFilter::kAny) return &gate.level.top();
  return gate.level.has_brief() ? &gate.level.top_brief() : nullptr;
}

RingQueue& FairRing::first_queue(const RingSeat& seat, ClaimFilter filter) {
  return filter == ClaimFilter::kAny ? seat.level.top() : seat.level.top_brief();
}

// Start costs order those who wait at one gate. Beside other gates they count for nothing: the level as a whole
// has received the time that was used. So where its first is ahead of the clock, as much as start costs may
// have brought about is taken back from all alike.
void FairRing::note_excess(RingGate& gate, const Service& service) {
  const bool is_alone = open_.size() + closed_.size() <= 1;
  const auto weight = static_cast<std::int64_t>(std::max<std::uint64_t>(gate.level.active_weight(), 1));
  constexpr VirtualTime kMost = FairLevel<RingSeat>::kMostService;
  gate.excess = is_alone ? 0 : std::min(kMost, gate.excess + (service.at_gate - service.in_lane) / weight);
}

void FairRing::forgive_starts(RingGate& gate) { gate.excess -= gate.level.pull(gate.excess); }

// A restricted claim is of an executor that others could not have, so those who are served by it run ahead of the
// clock, which stays with the others. They yield to these elsewhere, but owe them no more than such a turn of
// each executor.
void FairRing::limit_lead(RingSeat& seat, const RingQueue& queue, std::int64_t service) {
  constexpr VirtualTime kAny = std::numeric_limits<VirtualTime>::max();
  const auto allowed = [&](const FairNode& node) LOCKSLEY_REQUIRES(mutex_) {
    const VirtualTime most = FairLevel<RingQueue>::kMostService / options_.parallelism;
    return std::min(FairLevel<RingQueue>::charge_of(node, service), most) * options_.parallelism;
  };
  seat.home().pull(kAny, allowed(seat.fair));
  seat.tenant.limit_key(seat);
  seat.level.pull(kAny, allowed(queue.fair));
}

// ---- Clocks ----

void FairRing::follow(RingTenant& tenant, VirtualTime by) {
  for (const auto& seat : tenant.parts) {
    if (!seat->gate.is_open()) seat->level.follow(by);
  }
}

VirtualTime FairRing::least_start(const RingTenant& tenant) {
  VirtualTime least = kNever;
  for (const auto& seat : tenant.parts) {
    if (!seat->level.empty() && seat->gate.is_open()) least = std::min(least, seat->level.top_time());
  }
  return least;
}

void FairRing::set_back_clocks(RingTenant& busy) {
  if (clock_.now >= options_.set_back_at) {
    for (const auto& gate : gates_) {
      if (gate != nullptr) gate->level.set_back();
    }
    const VirtualTime by = clock_.set_back();
    for (const auto& [name, tenant] : tenants_) {
      tenant->fair.key = FairLevel<RingSeat>::set_back(tenant->fair.key, by);
      for (const auto& seat : tenant->parts) seat->home().set_back(*seat);
    }
    idle_.change_keys([by](VirtualTime key) { return FairLevel<RingSeat>::set_back(key, by); });
  }
  if (busy.clock.now >= options_.set_back_at) {
    for (const auto& seat : busy.parts) seat->level.set_back();
    busy.clock.set_back();
    for (RingQueue* queue = busy.first; queue != nullptr; queue = queue->next_)
      queue->seat_->level.set_back(*queue);
  }
}

// ---- Lists and hints ----

void FairRing::change_state(RingGate& gate, std::uint32_t state) {
  using Standing = RingGate::Standing;
  gate.state = state;
  const Standing standing = (state & kWaits) == 0 ? Standing::kIdle
                            : gate.admits != 0    ? Standing::kOpen
                                                  : Standing::kClosed;
  std::uint32_t ready = 0;
  if ((state & RingGate::admitting(Site::kLocal)) != 0) ready = state & (kWaits | kWaitsBrief);
  if ((state & RingGate::admitting(Site::kRemote)) != 0 && (state & kWaits) != 0) ready |= kReadyRemote;
  if (standing != gate.standing) move(gate, standing);
  if (ready == gate.ready) return;
  gate.ready = ready;
  if (!std::exchange(gate.is_unpublished, true)) unpublished_.push_back(&gate);
}

void FairRing::move(RingGate& gate, RingGate::Standing standing) {
  if (gate.standing != RingGate::Standing::kIdle) {
    std::vector<RingGate*>& list = list_of(gate.standing);
    list.back()->place = gate.place;
    list[gate.place] = list.back();
    list.pop_back();
  }
  gate.standing = standing;
  if (standing == RingGate::Standing::kIdle) return;
  std::vector<RingGate*>& list = list_of(standing);
  gate.place = static_cast<std::uint32_t>(list.size());
  list.push_back(&gate);
}

std::vector<RingGate*>& FairRing::list_of(RingGate::Standing standing) {
  return standing == RingGate::Standing::kOpen ? open_ : closed_;
}

void FairRing::publish_gates() {
  for (RingGate* const gate : unpublished_) {
    gate->is_unpublished = false;
    const std::uint32_t changed = gate->ready ^ std::exchange(gate->published, gate->ready);
    const std::uint64_t bit = GateSet::bit(gate->id);
    if ((changed & kReadyAny) != 0) ready_gates_[gate->id / 64].fetch_xor(bit);
    if ((changed & kReadyBrief) != 0) brief_gates_[gate->id / 64].fetch_xor(bit);
    if ((changed & kReadyRemote) != 0) remote_gates_[gate->id / 64].fetch_xor(bit);
  }
  unpublished_.clear();
  std::uint32_t ready = 0;
  for (const RingGate* const gate : open_) ready |= gate->ready;
  if (ready == published_ready_) return;
  published_ready_ = ready;
  ready_.store(ready);
}

bool FairRing::has_work(const GateSet& gates, ClaimFilter filter) const {
  return has_one_of(filter == ClaimFilter::kAny ? ready_gates_ : brief_gates_, gates);
}

bool FairRing::has_remote_work(const GateSet& gates) const { return has_one_of(remote_gates_, gates); }

}  // namespace locksley
