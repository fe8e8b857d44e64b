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
  return service_.read(usage_.recent(executors_, now), level_.competing_weight(), now);
}

double FairRing::share_of(const RingTenant& tenant) const {
  if (!tenant.fair.competes) return 0;
  return tenant.fair.weight / static_cast<double>(level_.competing_weight());
}

std::uint64_t FairRing::queues_ahead(const RingQueue& queue) const {
  if (!queue.fair.is_ready()) return 0;
  const RingTenant& own = *queue.tenant_;
  const FairKey queue_key(queue.fair);
  std::uint64_t ahead = 0;
  // The keys lie side by side in the heap, so one costs a nanosecond; of very many, a sample is
  // read.
  const std::size_t stride = 1 + own.level.size() / kMostLooked;
  own.level.for_each_ready(
      stride, [&](const RingQueue&, const FairKey& key) { ahead += key < queue_key ? stride : 0U; });

  // The turns of other tenants until the queue's own tenant has served those before it; a turn
  // takes about one quantum, or costs as much as a start.
  const auto turn = static_cast<double>(options_.share == Share::kTime
                                            ? std::max(options_.quantum.count(), options_.start_cost.count())
                                            : kJobService);
  const double start =
      static_cast<double>(own.fair.key) + static_cast<double>(ahead) * turn / own.fair.weight;
  const FairKey own_key(own.fair);
  level_.for_each_ready(
      1, [&](const RingTenant& other, const FairKey& other_key) LOCKSLEY_REQUIRES(kRingNodes) {
        if (&other == &own) return;
        const double before = (start - static_cast<double>(other.fair.key)) * other.fair.weight / turn;
        const auto queues = static_cast<double>(other.level.size());
        double turns = std::clamp(before, 0.0, queues);
        if (turns < 1 && other_key < own_key) turns = 1;
        ahead += static_cast<std::uint64_t>(turns);
      });
  return ahead;
}

bool FairRing::has_claims(const RingQueue& queue) const {
  const RingLock lock(mutex_);
  return queue.claimed_ != 0 || queue.fair.executors != 0;
}

QueueView FairRing::view(const RingQueue& queue, Nanoseconds now) const {
  const RingLock lock(mutex_);
  QueueView view;
  if (queue.tenant_ == nullptr) return view;
  const RingTenant& tenant = *queue.tenant_;
  view.attached = true;
  view.queued = queue.queued_;
  view.executors = queue.fair.executors;
  view.ahead = queues_ahead(queue);
  if (queue.fair.competes) {
    view.share = share_of(tenant) * queue.fair.weight / static_cast<double>(tenant.level.competing_weight());
  }
  if (const double lane = usage_.recent(executors_, now); lane > 0)
    view.received = queue.fair.usage.recent(queue.fair.executors, now) / lane;
  if (queue.job_cost_ > 0) {
    view.job_cost = std::max(Nanoseconds{static_cast<std::int64_t>(queue.job_cost_)}, options_.start_cost);
  }
  view.paused = queue.paused_;
  view.at_slots = at_slots(queue);
  view.backs_off = queue.backoff_end_.count() != 0;
  view.results_at_limit = tenant.results != nullptr && tenant.results->is_full();
  view.waiting = queue.fair.is_ready() && !view.results_at_limit;
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
  const auto kept = depths.begin() + static_cast<std::ptrdiff_t>(std::min(deepest, depths.size()));
  std::partial_sort(depths.begin(), kept, depths.end(), std::greater<>());
  result.deepest.assign(depths.begin(), kept);
  std::sort(result.tenants.begin(), result.tenants.end(),
            [](const TenantView& a, const TenantView& b) { return a.tenant < b.tenant; });
  return result;
}

}  // namespace locksley
