// Inspection of a ring: snapshot() and view().
#include <algorithm>
#include <functional>

#include "core/ring/fair_ring.h"

namespace locksley {

namespace {
constexpr std::size_t kMostLooked = 65'536;  // keys in a heap: 0.1 ms under the mutex; guess
constexpr std::size_t kMostDepths = 1024;    // queues anywhere in memory: the same
}  // namespace

ServiceReading FairRing::read_service(Nanoseconds now) const {
  return service_.read(usage_.recent(executors_, now), clock_.competing_weight, now);
}

double FairRing::share_of(const RingTenant& tenant) const {
  if (!tenant.fair.competes) return 0;
  return tenant.fair.weight / static_cast<double>(clock_.competing_weight);
}

std::uint64_t FairRing::queues_ahead(const RingQueue& queue) const {
  if (!queue.fair.is_ready()) return 0;
  const RingSeat& own = *queue.seat_;
  // What waits at other gates, while these are closed, is not served before.
  const auto counts = [&](const RingGate& gate) LOCKSLEY_REQUIRES(kRingNodes) {
    return &gate == &own.gate || gate.standing == RingGate::Standing::kOpen;
  };
  const auto start_of = [](const auto& level, FairKey key) LOCKSLEY_REQUIRES(kRingNodes) {
    key.start = level.time_of(key.start);
    return key;
  };
  const FairKey queue_key = start_of(own.level, FairKey(queue.fair));
  std::uint64_t ahead = 0;
  // The keys lie side by side in the heap, so one costs a nanosecond; of very many, a sample is
  // read.
  for (const auto& seat : own.tenant.parts) {
    if (!counts(seat->gate)) continue;
    const std::size_t stride = 1 + seat->level.size() / kMostLooked;
    seat->level.for_each_ready(stride,
                               [&](const RingQueue&, const FairKey& key) LOCKSLEY_REQUIRES(kRingNodes) {
                                 ahead += start_of(seat->level, key) < queue_key ? stride : 0U;
                               });
  }

  // The turns of other tenants until the queue's own tenant has served those before it; a turn
  // takes about one quantum, or costs as much as a start.
  const auto turn = static_cast<double>(
      options_.share == Share::kTime ? std::max(options_.quantum.count(), own.gate.options.start_cost.count())
                                     : kJobService);
  const FairKey own_key = start_of(own.gate.level, FairKey(own.fair));
  const double start =
      static_cast<double>(own_key.start) + static_cast<double>(ahead) * turn / own.fair.weight;
  for (const auto& gate : gates_) {
    if (gate == nullptr || !counts(*gate)) continue;
    gate->level.for_each_ready(
        1, [&](const RingSeat& other, const FairKey& key) LOCKSLEY_REQUIRES(kRingNodes) {
          if (&other.tenant == &own.tenant) return;
          const FairKey other_key = start_of(gate->level, key);
          const double before = (start - static_cast<double>(other_key.start)) * other.fair.weight / turn;
          double turns = std::clamp(before, 0.0, static_cast<double>(other.level.size()));
          if (turns < 1 && other_key < own_key) turns = 1;
          ahead += static_cast<std::uint64_t>(turns);
        });
  }
  return ahead;
}

bool FairRing::has_claims(const RingQueue& queue) const {
  const RingLock lock(mutex_);
  return queue.claimed_ != 0 || queue.fair.executors != 0;
}

QueueView FairRing::view(const RingQueue& queue, Nanoseconds now) const {
  const RingLock lock(mutex_);
  QueueView view;
  if (queue.seat_ == nullptr) return view;
  const RingTenant& tenant = queue.seat_->tenant;
  const RingGate& gate = queue.seat_->gate;
  view.attached = true;
  view.gate = gate.id;
  view.gate_is_closed = !gate.is_open();
  view.queued = queue.queued_;
  view.executors = queue.fair.executors;
  view.ahead = queues_ahead(queue);
  if (queue.fair.competes) {
    view.share = share_of(tenant) * queue.fair.weight / static_cast<double>(tenant.clock.competing_weight);
  }
  if (const double lane = usage_.recent(executors_, now); lane > 0)
    view.received = queue.fair.usage.recent(queue.fair.executors, now) / lane;
  if (queue.job_cost_ > 0) {
    view.job_cost =
        std::max(Nanoseconds{static_cast<std::int64_t>(queue.job_cost_)}, gate.options.start_cost);
  }
  view.paused = queue.paused_;
  view.at_slots = at_slots(queue);
  view.backs_off = queue.backoff_end_.count() != 0;
  view.results_at_limit = tenant.results != nullptr && tenant.results->is_full();
  view.waiting = queue.fair.is_ready() && gate.is_open() && !view.results_at_limit;
  return view;
}

RingSnapshot FairRing::snapshot(std::size_t deepest, Nanoseconds now) const {
  const RingLock lock(mutex_);
  RingSnapshot result;
  result.queued = queued_;
  result.claimed = claimed_;
  result.executors = executors_;
  result.claims_total = claims_;
  const ServiceReading reading = read_service(now);
  std::vector<std::uint64_t> depths;
  result.active_queues = active_queues_;
  std::size_t looked = 0;
  // A queue of a deeper class is deeper: once there are enough of them, the other classes are not
  // visited.
  for (std::size_t depth_class = by_depth_.size() - 1; depth_class > 0 && depths.size() < deepest;
       --depth_class) {
    for (const RingQueue* queue = by_depth_[depth_class]; queue != nullptr && looked < kMostDepths;
         queue = queue->next_as_deep_, ++looked) {
      depths.push_back(queue->queued_);
    }
  }
  for (const auto& [name, tenant] : tenants_) {
    result.queues += tenant->queues - tenant->internal_queues;
    const DueService::Sums sums = tenant->due.at(reading, tenant->fair.weight);
    const double received = tenant->fair.usage.recent(tenant->fair.executors, now);
    result.tenants.push_back({.tenant = name,
                              .weight = tenant->fair.weight,
                              .queues = tenant->queues - tenant->internal_queues,
                              .queued = tenant->queued,
                              .executors = tenant->fair.executors,
                              .busy = tenant->busy,
                              .share = share_of(*tenant),
                              .received = sums.lane > 0 ? std::min(1.0, received / sums.lane) : 0,
                              .due = sums.lane > 0 ? std::min(1.0, sums.due / sums.lane) : 0,
                              .is_idle = tenant->queues == 0});
  }
  for (const auto& gate : gates_) {
    if (gate == nullptr) continue;
    result.gates.push_back({.gate = gate->id,
                            .concurrency = gate->options.concurrency,
                            .is_on = gate->options.is_on,
                            .is_open = gate->is_open(),
                            .queues = gate->queues,
                            .active_queues = gate->active_queues,
                            .queued = gate->queued,
                            .executors = gate->executors});
  }
  const auto kept = depths.begin() + static_cast<std::ptrdiff_t>(std::min(deepest, depths.size()));
  std::partial_sort(depths.begin(), kept, depths.end(), std::greater<>());
  result.deepest.assign(depths.begin(), kept);
  std::sort(result.tenants.begin(), result.tenants.end(),
            [](const TenantView& a, const TenantView& b) { return a.tenant < b.tenant; });
  return result;
}

}  // namespace locksley
