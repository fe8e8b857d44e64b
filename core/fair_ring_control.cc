// Changes of queues, tenants and the ring that act at once on what is queued.
#include <algorithm>
#include <string>

#include "core/fair_ring.h"

namespace locksley {

void FairRing::set_weight(RingQueue& queue, std::uint32_t weight) {
  const std::lock_guard lock(mutex_);
  if (queue.tenant_ != nullptr) queue.tenant_->level.set_weight(queue, std::max(weight, 1U));
}

void FairRing::set_slots(RingQueue& queue, std::uint32_t slots, Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  if (queue.tenant_ == nullptr) return;
  queue.slots_ = slots;
  refresh(queue, now);
  publish();
}

void FairRing::pause(RingQueue& queue, Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  if (queue.tenant_ == nullptr || queue.cancelled_) return;
  queue.paused_ = true;
  refresh(queue, now);
  publish();
}

void FairRing::resume(RingQueue& queue, Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  if (queue.tenant_ == nullptr) return;
  queue.paused_ = false;
  arrive(queue, now);
  publish();
}

void FairRing::set_tenant_weight(std::string_view tenant, std::uint32_t weight) {
  const std::lock_guard lock(mutex_);
  const std::string name(tenant);
  tenant_weights_[name] = std::max(weight, 1U);
  if (const auto found = tenants_.find(name); found != tenants_.end()) {
    level_.set_weight(*found->second, std::max(weight, 1U));
  }
}

void FairRing::set_parallelism(std::uint32_t parallelism) {
  const std::lock_guard lock(mutex_);
  options_.parallelism = std::max(parallelism, 1U);
}

void FairRing::set_quantum(Nanoseconds quantum) {
  const std::lock_guard lock(mutex_);
  options_.quantum = std::max(quantum, Nanoseconds{1});
}

void FairRing::set_brief_job(Nanoseconds brief_job, Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  options_.brief_job = brief_job;
  for (const auto& [name, tenant] : tenants_) {
    for (RingQueue* queue = tenant->first; queue != nullptr; queue = queue->next_) refresh(*queue, now);
  }
  publish();
}

}  // namespace locksley
