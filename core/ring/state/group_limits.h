// The weight of a tenant or a customer, and the caps that its batches have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/base/job.h"

namespace locksley {

// The limits of a group of queues: of a tenant (user), or of a customer of a tenant. A plain value.
//
// The weight is a share: the least that the group gets while it has jobs to run. The slots and the
// rate are maxima. They reserve nothing for the group, so no slot is idle that another group can
// use. Each ring (lane) counts them by itself.
struct GroupLimits {
  std::uint32_t weight = 1;       // among the tenants, or among the customers of its tenant; 0 counts as 1
  std::uint32_t slots = 0;        // executors at once, a lease by its width; 0: no cap
  Nanoseconds start_interval{0};  // from the start of one job to that of the next; 0: no limit

  bool is_limited() const { return slots != 0 || start_interval.count() > 0; }
  friend bool operator==(const GroupLimits&, const GroupLimits&) = default;
};

// Returns the limits of a customer that comes into a ring; "" is the customer of batches that name
// none. Called by any thread that submits, under the ring's mutex: it must be quick, and must call
// neither ring nor lane. Code that changes the limits first makes this function return the new
// ones, and then calls set_customer_limits().
using LimitsOfCustomer = std::function<GroupLimits(std::string_view tenant, std::string_view customer)>;

}  // namespace locksley
