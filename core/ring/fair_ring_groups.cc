#include "core/ring/fair_ring_groups.h"

#include <algorithm>
#include <string>
#include <utility>

namespace locksley {

void FairRing::Groups::on_customer(LimitsOfCustomer limits_of) {
  const RingLock lock(ring_.mutex_);
  ring_.book_.on_customer(std::move(limits_of));
}

void FairRing::Groups::set_tenant_weight(std::string_view tenant, std::uint32_t weight) {
  const RingLock lock(ring_.mutex_);
  const std::string name(tenant);
  GroupLimits limits = ring_.book_.limits_of(name);
  limits.weight = std::max(weight, 1U);
  ring_.book_.set_limits(name, limits);
  if (RingGroup* const found = ring_.book_.tenant(name))
    change_limits(*found, limits, ring_.standings_.latest());
}

void FairRing::Groups::set_tenant_limits(std::string_view tenant, const GroupLimits& limits,
                                         Nanoseconds now) {
  const RingLock lock(ring_.mutex_);
  const std::string name(tenant);
  ring_.book_.set_limits(name, limits);
  if (RingGroup* const found = ring_.book_.tenant(name)) change_limits(*found, limits, now);
}

void FairRing::Groups::set_customer_limits(std::string_view tenant, std::string_view customer,
                                           const GroupLimits& limits, Nanoseconds now) {
  const RingLock lock(ring_.mutex_);
  RingGroup* group = ring_.book_.group(tenant, customer);
  if (group == nullptr) return;
  if (group->tenant == nullptr) {
    // Its limits as a customer are not the tenant's. Its weight counts as soon as there is another
    // customer.
    if (!limits.is_limited()) return;
    group = ring_.standings_.split(*group).customers->by_name.find("")->second.get();
  }
  change_limits(*group, limits, now);
}

void FairRing::Groups::change_limits(RingGroup& group, const GroupLimits& limits, Nanoseconds now) {
  const bool was_at_limit = group.at_limit();
  ring_.standings_.change_limits(group, limits, now);
  if (was_at_limit && !group.at_limit()) ring_.hints_.count_arrival();
  ring_.publish();
}

bool FairRing::Groups::reopen_tenants() {
  const RingLock lock(ring_.mutex_);
  const bool has_opened = ring_.standings_.reopen();
  if (has_opened) ring_.hints_.count_arrival();
  ring_.publish();
  return has_opened;
}

}  // namespace locksley
