// The tenants of a ring and their customers, as the program limits them.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/job.h"
#include "core/ring/fair_ring.h"
#include "core/ring/state/group_limits.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"

namespace locksley {

// Weights and limits of tenants and of their customers.
//
// A handle of a ring, which outlives it. Any thread. Each call takes the ring's mutex once; costs
// as with FairRing, unless the call says otherwise. A change is effective at once; running turns go
// on. Nothing fails.
class FairRing::Groups {
 public:
  // Also for tenants without queues: the weight or the limits apply once the tenant has a queue.
  void set_tenant_weight(std::string_view tenant, std::uint32_t weight);
  void set_tenant_limits(std::string_view tenant, const GroupLimits& limits, Nanoseconds now);
  // No effect on a customer that is not in the ring: when it comes, the ring asks the function of
  // on_customer() for its limits. Without such a function the customer has none, and the weight 1.
  void set_customer_limits(std::string_view tenant, std::string_view customer, const GroupLimits& limits,
                           Nanoseconds now);
  // Set once, before the first queue. group_limits.h says what the function may do.
  void on_customer(LimitsOfCustomer limits_of);
  // Lets tenants be served again that were shut (FairRing::try_claim()) and whose account of
  // results has room again. Returns whether there was one. O(tenants) if one is shut.
  bool reopen_tenants();

 private:
  friend class FairRing;
  explicit Groups(FairRing& ring) : ring_(ring) {}

  void change_limits(RingGroup& group, const GroupLimits& limits, Nanoseconds now)
      LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);

  FairRing& ring_;
};

inline FairRing::Groups FairRing::groups() { return Groups(*this); }

}  // namespace locksley
