// How tenants and queues come into a ring, and how they leave it.
#include <utility>

#include "core/ring/fair_ring.h"

namespace locksley {

RingTenant& FairRing::tenant_of(const std::string& name) {
  std::unique_ptr<RingTenant>& found = tenants_[name];
  if (found == nullptr) {
    found = std::make_unique<RingTenant>();
    found->name = name;
    found->fair.key = clock_.now;
    if (const auto weight = tenant_weights_.find(name); weight != tenant_weights_.end()) {
      found->fair.weight = weight->second;
    }
  } else if (found->queues == 0) {
    idle_.remove(*found);
  }
  return *found;
}

std::shared_ptr<void> FairRing::leave(RingQueue& queue) {
  end_backoff(queue);
  RingSeat& seat = *std::exchange(queue.seat_, nullptr);
  RingTenant& tenant = seat.tenant;
  --seat.gate.queues;
  (queue.previous_ != nullptr ? queue.previous_->next_ : tenant.first) = queue.next_;
  if (queue.next_ != nullptr) queue.next_->previous_ = queue.previous_;
  queue.previous_ = queue.next_ = nullptr;
  if (queue.internal_) --tenant.internal_queues;
  if (--tenant.queues == 0) {
    tenant.results = nullptr;
    if (std::exchange(tenant.is_shut, false)) --shut_tenants_;
    idle_.push(tenant, tenant.fair.key);
    remove_idle_tenants();
  }
  return std::move(queue.keepalive_);
}

void FairRing::remove_idle_tenants() {
  while (idle_.size() > options_.most_idle_tenants && idle_.top_key() <= clock_.now) {
    RingTenant& tenant = idle_.top();
    idle_.remove(tenant);
    tenants_.erase(tenants_.find(tenant.name));
  }
}

}  // namespace locksley
