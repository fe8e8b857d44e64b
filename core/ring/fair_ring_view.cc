#include "core/ring/fair_ring_view.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace locksley {

namespace {
// Each takes some 0.1 ms under the mutex. Guesses.
constexpr std::size_t kMostLooked = 65'536;  // keys, which lie side by side in a heap
constexpr std::size_t kMostDepths = 1024;    // queues, each elsewhere in memory
constexpr std::size_t kMostVisited = 4096;   // groups of one level, each elsewhere in memory
}  // namespace

std::uint64_t FairRing::View::queues_ahead(const RingQueue& queue) const {
  if (!queue.fair.is_ready()) return 0;
  const RingSeat& own = *queue.seat_;
  // What waits at another gate is served before it only if that gate is open.
  const auto counts = [&](const RingGate& gate) LOCKSLEY_REQUIRES(kFairNodes) {
    return &gate == &own.gate || gate.standing == RingGate::Standing::kOpen;
  };
  const FairKey queue_key = ServiceOrder::start_of(own.level, queue);
  std::uint64_t ahead = 0;
  // The keys lie side by side in the heap, so one costs a nanosecond; of very many, a sample is
  // read.
  for (const auto& seat : own.group.parts) {
    if (!counts(seat->gate)) continue;
    const std::size_t stride = 1 + seat->level.size() / kMostLooked;
    seat->level.for_each_ready(stride, [&](const RingNode&, FairKey key) LOCKSLEY_REQUIRES(kFairNodes) {
      key.start = seat->level.time_of(key.start);
      ahead += key < queue_key ? stride : 0U;
    });
  }

  // Then one level up at a time: `ahead` counts the turns below that come first.
  if (own.parent != nullptr) {
    std::uint64_t others = 0;
    for (const auto& seat : own.parent->group.parts) {
      if (counts(seat->gate)) others += turns_of_others(own, seat->level, own.gate, ahead);
    }
    ahead += others;
  }
  const RingSeat& tenant = own.parent == nullptr ? own : *own.parent;
  std::uint64_t others = 0;
  for (const auto& gate : ring_.gates_.all()) {
    if (gate != nullptr && counts(*gate)) others += turns_of_others(tenant, gate->level, own.gate, ahead);
  }
  return ahead + others;
}

std::uint64_t FairRing::View::turns_of_others(const RingSeat& own, const RingLevel& level,
                                              const RingGate& gate, std::uint64_t own_turns) const {
  const auto turn = static_cast<double>(ring_.costs_.service_of_one_turn(gate));
  const FairKey own_key = ServiceOrder::start_of(own.home(), own);
  const double start =
      static_cast<double>(own_key.start) + static_cast<double>(own_turns) * turn / own.fair.weight;
  const std::size_t stride = 1 + level.size() / kMostVisited;
  std::uint64_t others = 0;
  level.for_each_ready(stride, [&](const RingNode& node, FairKey key) LOCKSLEY_REQUIRES(kFairNodes) {
    const auto& other = static_cast<const RingSeat&>(node);
    if (&other.group == &own.group) return;
    key.start = level.time_of(key.start);
    const double before = (start - static_cast<double>(key.start)) * other.fair.weight / turn;
    const std::uint64_t most = other.group.customers == nullptr ? other.level.size() : other.group.queues;
    double turns = std::clamp(before, 0.0, static_cast<double>(most));
    if (turns < 1 && key < own_key) turns = 1;
    others += static_cast<std::uint64_t>(turns) * stride;
  });
  return others;
}

bool FairRing::View::has_queues(GateId gate) const {
  const RingLock lock(ring_.mutex_);
  return ring_.gates_.at(gate).queues != 0;
}

bool FairRing::View::has_claims(const RingQueue& queue) const {
  const RingLock lock(ring_.mutex_);
  return queue.claimed_ != 0 || queue.fair.executors != 0;
}

bool FairRing::View::has_place(const RingQueue& queue) const {
  const RingLock lock(ring_.mutex_);
  return queue.seat_ != nullptr && !queue.paused_ && !queue.cancelled_ && queue.backoff_end_.count() == 0 &&
         !queue.at_slots() && ring_.standings_.stays_open(*queue.seat_) &&
         (queue.seat_->gate.admits & RingGate::admitting(Site::kRemote)) != 0;
}

std::uint64_t FairRing::View::first_unclaimed(const RingQueue& queue) const {
  const RingLock lock(ring_.mutex_);
  return queue.jobs_.tail();
}

std::optional<bool> FairRing::View::is_queued(const RingQueue& queue, std::uint64_t index) const {
  constexpr std::size_t kMostRanges = 10'000;  // some 10 us with the mutex
  const RingLock lock(ring_.mutex_);
  return queue.jobs_.has(index, kMostRanges);
}

QueueView FairRing::View::queue(const RingQueue& queue, Nanoseconds now) const {
  const RingLock lock(ring_.mutex_);
  QueueView view;
  if (queue.seat_ == nullptr) return view;
  const RingGroup& group = queue.seat_->group;
  const RingGroup& tenant = group.tenant == nullptr ? group : *group.tenant;
  const RingGate& gate = queue.seat_->gate;
  view.attached = true;
  view.gate = gate.id;
  view.gate_is_closed = !gate.is_open();
  view.queued = queue.jobs_.size();
  view.executors = queue.fair.executors;
  view.ahead = queues_ahead(queue);
  if (queue.fair.competes) {
    view.share = ring_.standings_.share_of(group) * queue.fair.weight /
                 static_cast<double>(group.clock.competing_weight);
  }
  if (const double lane = ring_.turns_.received(now); lane > 0)
    view.received = queue.fair.usage.recent(queue.fair.executors, now) / lane;
  if (queue.cost_.is_known()) {
    view.job_cost =
        std::max(Nanoseconds{static_cast<std::int64_t>(queue.cost_.mean())}, gate.options.start_cost);
  }
  view.paused = queue.paused_;
  view.at_slots = queue.at_slots();
  view.backoff = queue.backoff_;
  view.results_at_limit = tenant.results != nullptr && tenant.results->is_full();
  view.tenant_at_limit = tenant.at_limit();
  view.customer_at_limit = &group != &tenant && group.at_limit();
  view.waiting = queue.fair.is_ready() && gate.is_open() && !view.results_at_limit && !view.tenant_at_limit &&
                 !view.customer_at_limit;
  return view;
}

CustomerView FairRing::View::view_of(const RingGroup& group, const ServiceReading& lane,
                                     Nanoseconds now) const {
  const ServiceReading reading =
      group.tenant == nullptr ? lane : GroupStandings::read_service(*group.tenant, lane, now);
  const DueService::Sums sums = group.due.at(reading, group.fair.weight);
  const double received = group.fair.usage.recent(group.fair.executors, now);
  CustomerView view;
  view.queues = group.queues - group.internal_queues;
  view.queued = group.queued;
  view.executors = group.fair.executors;
  view.share = ring_.standings_.share_of(group);
  view.received = sums.lane > 0 ? std::min(1.0, received / sums.lane) : 0;
  view.due = sums.lane > 0 ? std::min(1.0, sums.due / sums.lane) : 0;
  if (group.tenant == nullptr) return view;  // all of the tenant is the customer without a name
  view.customer = group.name;
  view.weight = group.fair.weight;
  view.slots = group.limits.slots;
  view.start_interval = group.limits.start_interval;
  view.at_limit = group.at_limit() && group.has_waiting();
  return view;
}

std::optional<CustomerView> FairRing::View::customer(std::string_view tenant, std::string_view customer,
                                                     Nanoseconds now) const {
  const RingLock lock(ring_.mutex_);
  const RingGroup* const found = ring_.book_.group(tenant, customer);
  if (found == nullptr) return std::nullopt;
  return view_of(*found, ring_.standings_.read_service(now), now);
}

std::vector<CustomerView> FairRing::View::customers(std::string_view tenant_name, const std::string* after,
                                                    std::size_t most, Nanoseconds now) const {
  const RingLock lock(ring_.mutex_);
  std::vector<CustomerView> views;
  const auto tenant = ring_.book_.tenants().find(tenant_name);
  if (tenant == ring_.book_.tenants().end() || most == 0) return views;
  const ServiceReading reading = ring_.standings_.read_service(now);
  if (tenant->second->customers == nullptr) {
    if (after == nullptr && tenant->second->queues != 0)
      views.push_back(view_of(*tenant->second, reading, now));
    return views;
  }
  const auto& by_name = tenant->second->customers->by_name;
  for (auto each = after == nullptr ? by_name.begin() : by_name.upper_bound(*after);
       each != by_name.end() && views.size() < most; ++each) {
    views.push_back(view_of(*each->second, reading, now));
  }
  return views;
}

RingTotals FairRing::View::totals_locked() const {
  RingTotals totals{.claimed = ring_.jobs_.claimed(),
                    .executors = ring_.turns_.executors(),
                    .active_queues = ring_.jobs_.active_queues(),
                    .claims_total = ring_.jobs_.claims()};
  for (const auto& gate : ring_.gates_.all()) {
    if (gate != nullptr) totals.queued += gate->queued;
  }
  return totals;
}

RingTotals FairRing::View::totals() const {
  const RingLock lock(ring_.mutex_);
  return totals_locked();
}

std::vector<GateView> FairRing::View::gates_locked() const {
  std::vector<GateView> views;
  for (const auto& gate : ring_.gates_.all()) {
    if (gate == nullptr) continue;
    views.push_back({.gate = gate->id,
                     .concurrency = gate->options.concurrency,
                     .is_on = gate->options.is_on,
                     .is_open = gate->is_open(),
                     .queues = gate->queues,
                     .active_queues = gate->active_queues,
                     .queued = gate->queued,
                     .executors = gate->executors});
  }
  return views;
}

std::vector<GateView> FairRing::View::gates() const {
  const RingLock lock(ring_.mutex_);
  return gates_locked();
}

TenantView FairRing::View::view_of_tenant(const RingGroup& tenant, const ServiceReading& lane,
                                          Nanoseconds now) const {
  const DueService::Sums sums = tenant.due.at(lane, tenant.fair.weight);
  const double received = tenant.fair.usage.recent(tenant.fair.executors, now);
  return {.tenant = tenant.name,
          .weight = tenant.fair.weight,
          .slots = tenant.limits.slots,
          .start_interval = tenant.limits.start_interval,
          .queues = tenant.queues - tenant.internal_queues,
          .queued = tenant.queued,
          .executors = tenant.fair.executors,
          .busy = tenant.busy,
          .share = ring_.standings_.share_of(tenant),
          .received = sums.lane > 0 ? std::min(1.0, received / sums.lane) : 0,
          .due = sums.lane > 0 ? std::min(1.0, sums.due / sums.lane) : 0,
          .is_idle = tenant.queues == tenant.internal_queues};
}

std::optional<TenantView> FairRing::View::tenant(std::string_view tenant, Nanoseconds now) const {
  const RingLock lock(ring_.mutex_);
  const auto found = ring_.book_.tenants().find(tenant);
  if (found == ring_.book_.tenants().end()) return std::nullopt;
  return view_of_tenant(*found->second, ring_.standings_.read_service(now), now);
}

std::vector<TenantView> FairRing::View::tenants(const std::string* after, std::size_t most,
                                                Nanoseconds now) const {
  const RingLock lock(ring_.mutex_);
  std::vector<TenantView> views;
  const ServiceReading reading = ring_.standings_.read_service(now);
  for (auto each = after == nullptr ? ring_.book_.tenants().begin()
                                    : ring_.book_.tenants().upper_bound(*after);
       each != ring_.book_.tenants().end() && views.size() < most; ++each) {
    views.push_back(view_of_tenant(*each->second, reading, now));
  }
  return views;
}

RingSnapshot FairRing::View::summary(std::size_t deepest) const {
  RingSnapshot result;
  std::vector<std::uint64_t> depths;
  {
    const RingLock lock(ring_.mutex_);
    static_cast<RingTotals&>(result) = totals_locked();
    depths = ring_.jobs_.depths().deepest(deepest, kMostDepths);
    result.gates = gates_locked();
  }
  const auto kept = depths.begin() + static_cast<std::ptrdiff_t>(std::min(deepest, depths.size()));
  std::partial_sort(depths.begin(), kept, depths.end(), std::greater<>());
  result.deepest.assign(depths.begin(), kept);
  return result;
}

RingSnapshot FairRing::View::snapshot(std::size_t deepest, Nanoseconds now) const {
  RingSnapshot result = summary(deepest);
  for_each_tenant(now, [&](TenantView&& tenant) {
    result.queues += tenant.queues;
    result.tenants.push_back(std::move(tenant));
  });
  return result;
}

}  // namespace locksley
