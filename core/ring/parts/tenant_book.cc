#include "core/ring/parts/tenant_book.h"

#include <utility>

namespace locksley {

RingGroup* TenantBook::tenant(std::string_view name) const {
  const auto found = tenants_.find(name);
  return found == tenants_.end() ? nullptr : found->second.get();
}

RingGroup* TenantBook::group(std::string_view tenant_name, std::string_view customer) const {
  const auto tenant = tenants_.find(tenant_name);
  if (tenant == tenants_.end()) return nullptr;
  if (tenant->second->customers == nullptr)
    return customer.empty() && tenant->second->queues != 0 ? tenant->second.get() : nullptr;
  const auto& by_name = tenant->second->customers->by_name;
  const auto found = by_name.find(customer);
  return found == by_name.end() ? nullptr : found->second.get();
}

std::vector<RingQueue*> TenantBook::queues() const {
  std::vector<RingQueue*> all;
  for_each_group([&all](const RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes) {
    for (RingQueue* queue = group.first; queue != nullptr; queue = queue->next_) all.push_back(queue);
  });
  return all;
}

// ---- They come ----

TenantBook::Entered TenantBook::enter_tenant(const std::string& name) {
  std::unique_ptr<RingGroup>& found = tenants_[name];
  const bool is_new = found == nullptr;
  if (is_new) {
    found = std::make_unique<RingGroup>();
    found->name = name;
    found->fair.key = clock_.now;
  } else if (found->queues == 0) {
    idle_.remove(*found);
  }
  return {.group = *found, .is_new = is_new};
}

TenantBook::Entered TenantBook::enter_customer(RingGroup& tenant, const std::string& name) {
  std::unique_ptr<RingGroup>& customer = tenant.customers->by_name[name];
  const bool is_new = customer == nullptr;
  if (is_new) {
    customer = std::make_unique<RingGroup>();
    customer->name = name;
    customer->tenant = &tenant;
    customer->fair.key = tenant.clock.now;
  } else if (customer->queues == 0) {
    idle_customers_.remove(*customer);
  }
  return {.group = *customer, .is_new = is_new};
}

void TenantBook::put_above(RingGroup& queues, std::unique_ptr<RingGroup> made) {
  RingGroup& tenant = *made;
  std::unique_ptr<RingGroup>& place = tenants_.find(tenant.name)->second;
  queues.tenant = &tenant;
  tenant.customers = std::make_unique<RingCustomers>();
  tenant.customers->by_name.emplace("", std::exchange(place, std::move(made)));
}

// ---- They rest, and are forgotten ----

void TenantBook::update_idle(RingGroup& group) {
  if (group.queues != 0 || group.is_resting) return;
  IdleGroups& idle = group.tenant == nullptr ? idle_ : group.tenant->customers->idle;
  idle.update(group, group.fair.key);
}

void TenantBook::forget_settled_tenants() {
  while (idle_.size() > options_.most_idle_tenants && idle_.top_key() <= clock_.now) {
    RingGroup& tenant = idle_.top();
    idle_.remove(tenant);
    idle_customers_.tenant_leaves(tenant);
    tenants_.erase(tenants_.find(tenant.name));
  }
}

void TenantBook::clear() {
  tenants_.clear();
  idle_ = {};
  idle_customers_ = {};
}

void TenantBook::set_back(VirtualTime by) {
  for (const auto& [name, tenant] : tenants_) {
    tenant->fair.key = RingLevel::set_back(tenant->fair.key, by);
    for (const auto& seat : tenant->parts) seat->home().set_back(*seat);
  }
  idle_.change_keys([by](VirtualTime key) { return RingLevel::set_back(key, by); });
}

// ---- Limits ----

GroupLimits TenantBook::limits_of(const std::string& tenant) const {
  const auto found = tenant_limits_.find(tenant);
  return found == tenant_limits_.end() ? GroupLimits{} : found->second;
}

GroupLimits TenantBook::limits_of(std::string_view tenant, std::string_view customer) const {
  return limits_of_ ? limits_of_(tenant, customer) : GroupLimits{};
}

void TenantBook::set_limits(const std::string& tenant, const GroupLimits& limits) {
  if (limits == GroupLimits{}) {
    tenant_limits_.erase(tenant);
  } else {
    tenant_limits_[tenant] = limits;
  }
}

void TenantBook::on_customer(LimitsOfCustomer limits_of) { limits_of_ = std::move(limits_of); }

}  // namespace locksley
