#include "core/ring/fair_ring_groups.h"

#include <algorithm>
#include <utility>

namespace locksley {

// ---- The program's calls ----

void FairRing::Groups::on_customer(LimitsOfCustomer limits_of) {
  const RingLock lock(ring_.mutex_);
  ring_.limits_of_ = std::move(limits_of);
}

void FairRing::Groups::set_tenant_weight(std::string_view tenant, std::uint32_t weight) {
  const RingLock lock(ring_.mutex_);
  const std::string name(tenant);
  GroupLimits& limits = ring_.tenant_limits_[name];
  limits.weight = std::max(weight, 1U);
  if (const auto found = ring_.tenants_.find(name); found != ring_.tenants_.end())
    change_limits(*found->second, limits, ring_.latest_);
  if (limits == GroupLimits{}) ring_.tenant_limits_.erase(name);
}

void FairRing::Groups::set_tenant_limits(std::string_view tenant, const GroupLimits& limits,
                                         Nanoseconds now) {
  const RingLock lock(ring_.mutex_);
  const std::string name(tenant);
  if (limits == GroupLimits{}) {
    ring_.tenant_limits_.erase(name);
  } else {
    ring_.tenant_limits_[name] = limits;
  }
  if (const auto found = ring_.tenants_.find(name); found != ring_.tenants_.end())
    change_limits(*found->second, limits, now);
}

void FairRing::Groups::set_customer_limits(std::string_view tenant, std::string_view customer,
                                           const GroupLimits& limits, Nanoseconds now) {
  const RingLock lock(ring_.mutex_);
  RingGroup* group = ring_.find_group(tenant, customer);
  if (group == nullptr) return;
  if (group->tenant == nullptr) {
    // Its limits as a customer are not the tenant's. Its weight counts as soon as there is another
    // customer.
    if (!limits.is_limited()) return;
    group = ring_.split(*group).customers->by_name.find("")->second.get();
  }
  change_limits(*group, limits, now);
}

void FairRing::Groups::change_limits(RingGroup& group, const GroupLimits& limits, Nanoseconds now) {
  ring_.latest_ = std::max(ring_.latest_, now);
  const bool was_at_limit = group.at_limit();
  ring_.set_limits(group, limits);
  if (group.queues != 0) ring_.refresh(group);
  if (was_at_limit && !group.at_limit()) ring_.hints_.count_arrival();
  ring_.publish();
}

bool FairRing::Groups::reopen_tenants() {
  const RingLock lock(ring_.mutex_);
  if (ring_.shut_tenants_ == 0) return false;
  bool has_opened = false;
  for (const auto& [name, tenant] : ring_.tenants_) {
    if ((tenant->blocks & RingGroup::kFull) == 0 || tenant->results->is_full_and_awaited()) continue;
    ring_.set_blocks(*tenant, tenant->blocks & ~RingGroup::kFull);
    --ring_.shut_tenants_;
    has_opened = true;
    ring_.refresh(*tenant);
  }
  if (has_opened) ring_.hints_.count_arrival();
  ring_.publish();
  return has_opened;
}

// ---- Who is there ----

RingGroup& FairRing::group_of(const std::string& tenant_name, const std::string& customer_name) {
  std::unique_ptr<RingGroup>& found = tenants_[tenant_name];
  if (found == nullptr) {
    found = std::make_unique<RingGroup>();
    found->name = tenant_name;
    found->fair.key = clocks_.of_tenants().now;
    if (const auto limits = tenant_limits_.find(tenant_name); limits != tenant_limits_.end())
      set_limits(*found, limits->second);
  } else if (found->queues == 0) {
    idle_.remove(*found);
  }
  RingGroup* tenant = found.get();
  if (tenant->customers == nullptr) {
    // The limits of customer "" were asked for when the tenant's first queue came.
    if (customer_name.empty() && (tenant->queues != 0 || !limits_of(tenant_name, "").is_limited()))
      return *tenant;
    if (tenant->queues != 0) {
      tenant = &split(*tenant);
    } else {
      tenant->customers = std::make_unique<RingCustomers>();
    }
  }
  std::unique_ptr<RingGroup>& customer = tenant->customers->by_name[customer_name];
  if (customer == nullptr) {
    customer = std::make_unique<RingGroup>();
    customer->name = customer_name;
    customer->tenant = tenant;
    customer->fair.key = tenant->clock.now;
    set_limits(*customer, limits_of(tenant_name, customer_name));
  } else if (customer->queues == 0) {
    idle_customers_.remove(*customer);
  }
  return *customer;
}

RingGroup* FairRing::find_group(std::string_view tenant_name, std::string_view customer) const {
  const auto tenant = tenants_.find(tenant_name);
  if (tenant == tenants_.end()) return nullptr;
  if (tenant->second->customers == nullptr)
    return customer.empty() && tenant->second->queues != 0 ? tenant->second.get() : nullptr;
  const auto& by_name = tenant->second->customers->by_name;
  const auto found = by_name.find(customer);
  return found == by_name.end() ? nullptr : found->second.get();
}

RingSeat& FairRing::seat_of(RingGroup& group, RingGate& gate) {
  for (const auto& seat : group.parts) {
    if (&seat->gate == &gate) return *seat;
  }
  RingSeat* const above = group.tenant == nullptr ? nullptr : &seat_of(*group.tenant, gate);
  RingSeat& seat = *group.parts.emplace_back(std::make_unique<RingSeat>(group, group.clock, gate, above));
  seat.fair.key = seat.home().now();
  // All its seats may have been removed with their gates. It is as far ahead of others as it was.
  if (group.parts.size() == 1) seat.fair.key = std::max(seat.fair.key, seat.home().key_of(group.fair.key));
  seat.fair.weight = group.fair.weight;
  seat.own.shifts = seat.home().shifts();
  seat.is_plain = is_plain(group);
  return seat;
}

RingGroup& FairRing::split(RingGroup& queues) {
  std::unique_ptr<RingGroup>& place = tenants_.find(queues.name)->second;
  auto made = std::make_unique<RingGroup>();
  RingGroup& tenant = *made;
  tenant.name = std::exchange(queues.name, "");
  tenant.busy = std::exchange(queues.busy, Nanoseconds{0});
  tenant.due = std::exchange(queues.due, {});
  tenant.results = std::exchange(queues.results, nullptr);
  tenant.limits = std::exchange(queues.limits, {});
  tenant.rate = std::exchange(queues.rate, {});
  tenant.blocks = std::exchange(queues.blocks, 0);
  tenant.queues = queues.queues;
  tenant.internal_queues = queues.internal_queues;
  tenant.queued = queues.queued;
  waits_.set_rate(queues, std::nullopt);

  for (const auto& seat : queues.parts)
    tenant.parts.push_back(std::make_unique<RingSeat>(tenant, tenant.clock, seat->gate, nullptr));
  tenant.take_place_of(queues);
  for (std::size_t i = 0; i < queues.parts.size(); ++i) {
    queues.parts[i]->set_parent(*tenant.parts[i]);
    tenant.parts[i]->first_costs = queues.parts[i]->first_costs;
    tenant.parts[i]->first_turns = queues.parts[i]->first_turns;
  }
  queues.tenant = &tenant;
  tenant.customers = std::make_unique<RingCustomers>();
  tenant.customers->by_name.emplace("", std::exchange(place, std::move(made)));
  const GroupLimits limits = limits_of(tenant.name, "");
  queues.start_in(tenant.clock, std::max(limits.weight, 1U),
                  [](const RingSeat& seat) LOCKSLEY_REQUIRES(kFairNodes) { return !seat.level.empty(); });
  set_limits(queues, limits);
  set_limits(tenant, tenant.limits);
  refresh(queues);
  return tenant;
}

// ---- Queues ----

void FairRing::change_queues(RingGroup& group, const RingQueue& queue, std::uint64_t by) {
  for (RingGroup* each = &group; each != nullptr; each = each->tenant) {
    each->queues += by;
    if (queue.internal_) each->internal_queues += by;
  }
}

void FairRing::note_idle(RingGroup& group) {
  RingGroup& tenant = group.tenant == nullptr ? group : *group.tenant;
  if (&group != &tenant) {
    idle_customers_.add(group);
    forget_customers(tenant);
  }
  if (tenant.queues != 0) return;
  tenant.results = nullptr;
  if ((tenant.blocks & RingGroup::kFull) != 0) {
    set_blocks(tenant, tenant.blocks & ~RingGroup::kFull);
    --shut_tenants_;
  }
  idle_.push(tenant, tenant.fair.key);
  remove_idle_tenants();
}

void FairRing::forget_customers(RingGroup& tenant) {
  idle_customers_.forget_settled(tenant, latest_);
  idle_customers_.limit(options_.most_idle_customers);
}

void FairRing::remove_idle_tenants() {
  while (idle_.size() > options_.most_idle_tenants && idle_.top_key() <= clocks_.of_tenants().now) {
    RingGroup& tenant = idle_.top();
    idle_.remove(tenant);
    idle_customers_.tenant_leaves(tenant);
    tenants_.erase(tenants_.find(tenant.name));
  }
}

// ---- Limits ----

GroupLimits FairRing::limits_of(std::string_view tenant, std::string_view customer) const {
  return limits_of_ ? limits_of_(tenant, customer) : GroupLimits{};
}

void FairRing::set_limits(RingGroup& group, const GroupLimits& limits) {
  group.limits = limits;
  group.limits.weight = std::max(limits.weight, 1U);
  group.rate.set_interval(limits.start_interval, latest_);
  if (group.limits.weight != group.fair.weight) change_weight(group, group.limits.weight);
  set_blocks(group, group.blocks);
}

void FairRing::change_weight(RingGroup& group, std::uint32_t weight) {
  const bool competes = group.fair.competes;
  set_competes(group, false);
  group.set_weight(clocks_.of_members_beside(group), weight);
  set_competes(group, competes);
}

std::uint8_t FairRing::blocks_now(const RingGroup& group) const {
  std::uint8_t blocks = group.blocks & RingGroup::kFull;
  if (group.limits.slots != 0 && group.fair.executors >= group.limits.slots) blocks |= RingGroup::kAtSlots;
  if (group.rate.available(latest_) == 0) blocks |= RingGroup::kAtRate;
  return blocks;
}

bool FairRing::is_plain(const RingGroup& group) {
  return group.tenant == nullptr && group.blocks == 0 && !group.limits.is_limited();
}

void FairRing::set_blocks(RingGroup& group, std::uint8_t blocks) {
  group.blocks = blocks;
  for (const auto& seat : group.parts) seat->is_plain = is_plain(group);
}

void FairRing::update_wait(RingGroup& group) {
  const bool waits = (group.blocks & RingGroup::kAtRate) != 0 && group.has_waiting();
  waits_.set_rate(group, waits ? std::optional(group.rate.next_at()) : std::nullopt);
}

// ---- Turns ----

std::uint64_t FairRing::prepare_above(RingSeat& seat, const RingQueue& queue, Nanoseconds now) const {
  if (seat.parent != nullptr) clocks_.pass_to_least(*seat.parent);
  std::uint64_t most = kAnyNumber;
  for (const RingGroup* group = &seat.group; group != nullptr; group = group->tenant) {
    most = std::min(most, group->rate.available(std::max(now, latest_)));
    if (const std::uint64_t slots = group->limits.slots; slots != 0)
      most = std::min(most, (queue.jobs_.size() + slots - 1) / slots);
  }
  return std::max<std::uint64_t>(most, 1);
}

void FairRing::begin_above(RingSeat& seat, Charge& charged, std::uint64_t jobs,
                           std::optional<std::int64_t> service, Nanoseconds now) {
  RingSeat* const above = seat.parent;
  if (above != nullptr) {
    RingGroup& tenant = above->group;
    charged.place |= Charge::kOfCustomer;
    if (service) {
      charged.tenant = tenant.charge(*above, *service);
      if (clocks_.is_far(above->level)) RingClocks::set_back_members(tenant);
      if (tenant.idle_customers != 0) forget_customers(tenant);
    } else {
      charged.tenant = tenant.join(*above);
      if (clocks_.least_to_pass(tenant) == RingClocks::kNoStart)
        RingClocks::pass(*above, seat.home().time_of(clocks_.key_to_pass(seat.fair)));
    }
    tenant.fair.usage.begin(now);
  }
  for (RingGroup* group = &seat.group; group != nullptr; group = group->tenant) {
    if (group->limits.slots != 0) charged.place |= Charge::kCapped;
    group->rate.take(jobs, std::max(now, latest_));
  }
}

FairCharge FairRing::end_above(RingSeat& seat, const Settlement& settlement, TurnService service,
                               Nanoseconds received, Nanoseconds now) {
  const Charge& charged = settlement.charged;
  const std::uint64_t jobs = settlement.left.size();
  // Jobs that began, and went back without an end, have used up their starts.
  const std::uint64_t begun = settlement.started - std::min(settlement.started, settlement.executed);
  for (RingGroup* group = &seat.group; group != nullptr; group = group->tenant)
    group->rate.refund(jobs - std::min(jobs, begun));
  RingSeat* const above = seat.parent;
  if (above == nullptr) return charged.group;
  RingGroup& tenant = above->group;
  // A turn that began when the queue's group was the tenant was charged to the tenant alone.
  tenant.settle(*above, charged.is_of_customer() ? charged.tenant : charged.group, service.at_gate,
                service.in_lane);
  tenant.fair.usage.end(EndedService(charged.began, received, now));
  tenant.busy += settlement.actual;
  return charged.is_of_customer() ? charged.group : FairCharge{};
}

// ---- Shares ----

// The service of the lane until now belongs to the weights that competed for it, and so does what
// is due to a tenant.
void FairRing::change_competes(RingGroup& group, bool competes) {
  const double service = turns_.received(latest_);
  const ServiceReading& lane =
      service_.advance(service, service, clocks_.of_tenants().competing_weight, latest_);
  RingGroup* const tenant = group.tenant;
  ServiceReading reading = lane;
  if (tenant != nullptr) {
    reading = tenant->customers->service.advance(lane.lane, tenant->due.due_at(lane, tenant->fair.weight),
                                                 tenant->clock.competing_weight, latest_);
  }
  competes ? group.due.begin(reading) : group.due.end(reading, group.fair.weight);
  clocks_.of_members_beside(group).set_competes(group.fair, competes);
}

}  // namespace locksley
