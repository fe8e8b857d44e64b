#include "core/ring/parts/group_standings.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace locksley {

// ---- Queues come and leave ----

RingSeat& GroupStandings::enter(const std::string& tenant, const std::string& customer, RingGate& gate) {
  return seat_of(group_of(tenant, customer), gate);
}

RingGroup& GroupStandings::group_of(const std::string& tenant_name, const std::string& customer_name) {
  const TenantBook::Entered entered = book_.enter_tenant(tenant_name);
  RingGroup* tenant = &entered.group;
  if (entered.is_new) {
    if (const GroupLimits limits = book_.limits_of(tenant_name); limits != GroupLimits{})
      set_limits(*tenant, limits);
  }
  if (tenant->customers == nullptr) {
    // The limits of customer "" were asked for when the tenant's first queue came.
    if (customer_name.empty() && (tenant->queues != 0 || !book_.limits_of(tenant_name, "").is_limited()))
      return *tenant;
    if (tenant->queues != 0) {
      tenant = &split(*tenant);
    } else {
      tenant->customers = std::make_unique<RingCustomers>();
    }
  }
  const TenantBook::Entered customer = book_.enter_customer(*tenant, customer_name);
  if (customer.is_new) set_limits(customer.group, book_.limits_of(tenant_name, customer_name));
  return customer.group;
}

RingSeat& GroupStandings::seat_of(RingGroup& group, RingGate& gate) {
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

RingGroup& GroupStandings::split(RingGroup& queues) {
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
  book_.put_above(queues, std::move(made));
  const GroupLimits limits = book_.limits_of(tenant.name, "");
  queues.start_in(tenant.clock, std::max(limits.weight, 1U),
                  [](const RingSeat& seat) LOCKSLEY_REQUIRES(kFairNodes) { return !seat.level.empty(); });
  set_limits(queues, limits);
  set_limits(tenant, tenant.limits);
  refresh(queues);
  return tenant;
}

void GroupStandings::change_queues(RingGroup& group, const RingQueue& queue, std::uint64_t by) {
  for (RingGroup* each = &group; each != nullptr; each = each->tenant) {
    each->queues += by;
    if (queue.internal_) each->internal_queues += by;
  }
}

void GroupStandings::rest(RingGroup& group) {
  RingGroup& tenant = group.tenant == nullptr ? group : *group.tenant;
  if (&group != &tenant) {
    book_.rest_customer(group);
    book_.forget_customers(tenant, latest_);
  }
  if (tenant.queues != 0) return;
  tenant.results = nullptr;
  if ((tenant.blocks & RingGroup::kFull) != 0) {
    set_blocks(tenant, tenant.blocks & ~RingGroup::kFull);
    --shut_tenants_;
  }
  book_.rest_tenant(tenant);
}

// ---- Limits ----

void GroupStandings::change_limits(RingGroup& group, const GroupLimits& limits, Nanoseconds now) {
  advance(now);
  set_limits(group, limits);
  if (group.queues != 0) refresh(group);
}

void GroupStandings::shut(RingGroup& tenant) {
  set_blocks(tenant, tenant.blocks | RingGroup::kFull);
  ++shut_tenants_;
  refresh(tenant);
}

bool GroupStandings::reopen() {
  if (shut_tenants_ == 0) return false;
  bool has_opened = false;
  for (const auto& [name, tenant] : book_.tenants()) {
    if ((tenant->blocks & RingGroup::kFull) == 0 || tenant->results->is_full_and_awaited()) continue;
    set_blocks(*tenant, tenant->blocks & ~RingGroup::kFull);
    --shut_tenants_;
    has_opened = true;
    refresh(*tenant);
  }
  return has_opened;
}

void GroupStandings::set_limits(RingGroup& group, const GroupLimits& limits) {
  group.limits = limits;
  group.limits.weight = std::max(limits.weight, 1U);
  group.rate.set_interval(limits.start_interval, latest_);
  if (group.limits.weight != group.fair.weight) change_weight(group, group.limits.weight);
  set_blocks(group, group.blocks);
}

void GroupStandings::change_weight(RingGroup& group, std::uint32_t weight) {
  const bool competes = group.fair.competes;
  set_competes(group, false);
  group.set_weight(clocks_.of_members_beside(group), weight);
  set_competes(group, competes);
}

std::uint8_t GroupStandings::blocks_now(const RingGroup& group) const {
  std::uint8_t blocks = group.blocks & RingGroup::kFull;
  if (group.limits.slots != 0 && group.fair.executors >= group.limits.slots) blocks |= RingGroup::kAtSlots;
  if (group.rate.available(latest_) == 0) blocks |= RingGroup::kAtRate;
  return blocks;
}

bool GroupStandings::is_plain(const RingGroup& group) {
  return group.tenant == nullptr && group.blocks == 0 && !group.limits.is_limited();
}

void GroupStandings::set_blocks(RingGroup& group, std::uint8_t blocks) {
  group.blocks = blocks;
  for (const auto& seat : group.parts) seat->is_plain = is_plain(group);
}

void GroupStandings::update_wait(RingGroup& group) {
  const bool waits = (group.blocks & RingGroup::kAtRate) != 0 && group.has_waiting();
  waits_.set_rate(group, waits ? std::optional(group.rate.next_at()) : std::nullopt);
}

// ---- After a change ----

void GroupStandings::refresh(RingGroup& group) {
  set_blocks(group, blocks_now(group));
  for (const auto& seat : group.parts) refresh_place(*seat);
  update_wait(group);
}

void GroupStandings::refresh(RingSeat& seat) {
  RingGroup& group = seat.group;
  if (seat.is_plain) return refresh_place(seat);
  if (blocks_now(group) != group.blocks) return refresh(group);
  refresh_place(seat);
  update_wait(group);
}

void GroupStandings::refresh_place(RingSeat& seat) {
  RingGroup& group = seat.group;
  const bool has_waiting = !seat.level.empty();
  group.set_ready(seat, has_waiting && group.blocks == 0,
                  seat.level.has_brief() ? JobLength::kBrief : JobLength::kLengthy);
  set_competes(group, group.blocks != 0 ? group.fair.executors > 0 : group.clock.competing_weight > 0);
  if (!has_waiting && group.fair.executors == 0 && !group.has_waiting()) {
    group.clock.end_busy_period();
    if (group.customers != nullptr) book_.forget_customers(group, latest_);
  }
  if (seat.parent != nullptr) return refresh(*seat.parent);
  gates_.update_lists(seat.gate);
  if (turns_.executors() == 0 && gates_.nothing_waits()) {
    clocks_.of_tenants().end_busy_period();
    book_.forget_tenants();
  }
}

bool GroupStandings::stays_open(const RingSeat& seat) const {
  for (const RingGroup* group = &seat.group; group != nullptr; group = group->tenant) {
    if (group->blocks != 0 || blocks_now(*group) != 0) return false;
  }
  return true;
}

// ---- Turns ----

std::uint64_t GroupStandings::prepare_above(RingSeat& seat, const RingQueue& queue, Nanoseconds now) const {
  if (seat.parent != nullptr) clocks_.pass_to_least(*seat.parent);
  std::uint64_t most = ~std::uint64_t{0};
  for (const RingGroup* group = &seat.group; group != nullptr; group = group->tenant) {
    most = std::min(most, group->rate.available(std::max(now, latest_)));
    if (const std::uint64_t slots = group->limits.slots; slots != 0)
      most = std::min(most, (queue.jobs_.size() + slots - 1) / slots);
  }
  return std::max<std::uint64_t>(most, 1);
}

void GroupStandings::begin_above(RingSeat& seat, Charge& charged, std::uint64_t jobs,
                                 std::optional<std::int64_t> service, Nanoseconds now) {
  RingSeat* const above = seat.parent;
  if (above != nullptr) {
    RingGroup& tenant = above->group;
    charged.place |= Charge::kOfCustomer;
    if (service) {
      charged.tenant = tenant.charge(*above, *service);
      if (clocks_.is_far(above->level)) RingClocks::set_back_members(tenant);
      if (tenant.idle_customers != 0) book_.forget_customers(tenant, latest_);
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

FairCharge GroupStandings::end_above(RingSeat& seat, const Settlement& settlement, TurnService service,
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

// ---- What is due ----

// The service of the lane until now belongs to the weights that competed for it, and so does what
// is due to a tenant.
void GroupStandings::change_competes(RingGroup& group, bool competes) {
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

ServiceReading GroupStandings::read_service(Nanoseconds now) const {
  const double lane = turns_.received(now);
  return service_.read(lane, lane, clocks_.of_tenants().competing_weight, now);
}

ServiceReading GroupStandings::read_service(const RingGroup& tenant, const ServiceReading& lane,
                                            Nanoseconds now) {
  return tenant.customers->service.read(lane.lane, tenant.due.due_at(lane, tenant.fair.weight),
                                        tenant.clock.competing_weight, now);
}

double GroupStandings::share_of(const RingGroup& group) const {
  if (!group.fair.competes) return 0;
  if (group.tenant == nullptr)
    return group.fair.weight / static_cast<double>(clocks_.of_tenants().competing_weight);
  return share_of(*group.tenant) * group.fair.weight /
         static_cast<double>(group.tenant->clock.competing_weight);
}

}  // namespace locksley
