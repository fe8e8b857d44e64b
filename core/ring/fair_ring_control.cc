// Changes of queues, tenants and the ring that are effective at once for all queued jobs.
#include <algorithm>
#include <string>
#include <utility>

#include "core/ring/fair_ring.h"

namespace locksley {

void FairRing::set_weight(RingQueue& queue, std::uint32_t weight) {
  const RingLock lock(mutex_);
  if (queue.seat_ != nullptr) queue.seat_->tenant.clock.set_weight(queue.fair, std::max(weight, 1U));
}

void FairRing::set_slots(RingQueue& queue, std::uint32_t slots, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return;
  queue.slots_ = slots;
  refresh(queue, now);
  publish();
}

void FairRing::pause(RingQueue& queue, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr || queue.cancelled_) return;
  queue.paused_ = true;
  refresh(queue, now);
  publish();
}

void FairRing::resume(RingQueue& queue, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return;
  queue.paused_ = false;
  arrive(queue, now);
  publish();
}

IndexRange FairRing::withdraw(RingQueue& queue, std::uint64_t from, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  const IndexRange withdrawn{std::max(from, queue.cursor_), queue.end_};
  if (queue.keepalive_ == nullptr || withdrawn.low >= withdrawn.high) return {};
  queue.end_ = withdrawn.low;
  change_queued(queue, -withdrawn.size());
  refresh(queue, now);
  released = leave_if_over(queue);
  publish();
  return withdrawn;
}

std::uint64_t FairRing::first_unclaimed(const RingQueue& queue) const {
  const RingLock lock(mutex_);
  return queue.cursor_;
}

void FairRing::begin_backoff(RingQueue& queue, const Settlement& settlement, Nanoseconds now) {
  if (settlement.has_ended_well) queue.breaks_ = 0;
  if (!settlement.has_broken || queue.cancelled_ || queue.backoff_end_.count() != 0) return;
  constexpr std::uint32_t kMostDoublings = 10;  // beyond kLongestBackoff
  queue.backoff_end_ =
      now +
      std::min(kLongestBackoff, kFirstBackoff * (std::int64_t{1} << std::min(queue.breaks_, kMostDoublings)));
  ++queue.breaks_;
  backoffs_.emplace(queue.backoff_end_, &queue);
}

void FairRing::end_backoff(RingQueue& queue) {
  if (queue.backoff_end_.count() == 0) return;
  backoffs_.erase({queue.backoff_end_, &queue});
  queue.backoff_end_ = Nanoseconds{0};
}

std::optional<Nanoseconds> FairRing::end_backoffs(Nanoseconds now) {
  const RingLock lock(mutex_);
  while (!backoffs_.empty() && backoffs_.begin()->first <= now) {
    RingQueue& queue = *backoffs_.begin()->second;
    end_backoff(queue);
    arrive(queue, now);
  }
  publish();
  return backoffs_.empty() ? std::nullopt : std::optional(backoffs_.begin()->first);
}

void FairRing::set_tenant_weight(std::string_view tenant, std::uint32_t weight) {
  const RingLock lock(mutex_);
  const std::string name(tenant);
  tenant_weights_[name] = std::max(weight, 1U);
  if (const auto found = tenants_.find(name); found != tenants_.end()) {
    RingTenant& changed = *found->second;
    const bool competes = changed.fair.competes;
    set_competes(changed, false);
    changed.set_weight(clock_, std::max(weight, 1U));
    set_competes(changed, competes);
  }
}

// The service of the lane until now belongs to the weights that competed for it.
void FairRing::change_competes(RingTenant& tenant, bool competes) {
  const ServiceReading& reading =
      service_.advance(usage_.recent(executors_, latest_), clock_.competing_weight, latest_);
  competes ? tenant.due.begin(reading) : tenant.due.end(reading, tenant.fair.weight);
  clock_.set_competes(tenant.fair, competes);
}

bool FairRing::reopen_tenants() {
  const RingLock lock(mutex_);
  if (shut_tenants_ == 0) return false;
  bool has_opened = false;
  for (const auto& [name, tenant] : tenants_) {
    if (!tenant->is_shut || tenant->results->is_full_and_awaited()) continue;
    tenant->is_shut = false;
    --shut_tenants_;
    has_opened = true;
    refresh(*tenant);
  }
  // [ring-arrivals] relaxed: as in arrivals(); only the holder of the mutex writes.
  if (has_opened) arrivals_.fetch_add(1, std::memory_order_relaxed);
  publish();
  return has_opened;
}

void FairRing::set_parallelism(std::uint32_t parallelism) {
  const RingLock lock(mutex_);
  options_.parallelism = std::max(parallelism, 1U) + remote_parallelism_;
}

void FairRing::set_remote_parallelism(std::uint32_t remote) {
  const RingLock lock(mutex_);
  options_.parallelism += remote - std::exchange(remote_parallelism_, remote);
}

void FairRing::set_quantum(Nanoseconds quantum) {
  const RingLock lock(mutex_);
  options_.quantum = std::max(quantum, Nanoseconds{1});
}

void FairRing::set_brief_job(Nanoseconds brief_job, Nanoseconds now) {
  const RingLock lock(mutex_);
  options_.brief_job = brief_job;
  for (const auto& [name, tenant] : tenants_) {
    for (RingQueue* queue = tenant->first; queue != nullptr; queue = queue->next_) refresh(*queue, now);
  }
  publish();
}

}  // namespace locksley
