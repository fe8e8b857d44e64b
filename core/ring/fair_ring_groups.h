// The tenants of a ring and their customers, as the owner of the ring limits them.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/job.h"
#include "core/ring/fair_ring.h"
#include "core/ring/group_limits.h"
#include "core/ring/ring_group.h"
#include "core/ring/ring_lock.h"

namespace locksley {

// Weights and limits of tenants and of their customers.
//
// A handle of a ring, which outlives it. Any thread. Each call takes the ring's mutex once, for as long as FairRing says
// unless it says otherwise; a change is effective at once, and what runs goes on. Nothing fails.
class FairRing::Groups {
 public:
  // Also for a tenant without queues: it will have that weight, or these limits, once it has one.
  void set_tenant_weight(std::string_view tenant, std::uint32_t weight);
  void set_tenant_limits(std::string_view tenant, const GroupLimits& limits, Nanoseconds now);
  // No effect on a customer that is not in the ring: when it comes, its limits are asked of the function of
  // on_customer(). Without such a function it has none, and the weight 1.
  void set_customer_limits(std::string_view tenant, std::string_view customer, const GroupLimits& limits,
                           Nanoseconds now);
  // Set once, before the first queue.
  void on_customer(LimitsOfCustomer limits_of);
  // Tenants that were shut (FairRing::try_claim()), and whose account of results has room again, are served again.
  // Returns whether there was one. O(tenants) if one is shut.
  bool reopen_tenants();

 private:
  friend class FairRing;
  explicit Groups(FairRing& ring) : ring_(ring) {}

  void change_limits(RingGroup& group, const GroupLimits& limits, Nanoseconds now)
      LOCKSLEY_REQUIRES(ring_.mutex_, kRingNodes);

  FairRing& ring_;
};

inline FairRing::Groups FairRing::groups() { return Groups(*this); }

}  // namespace locksley
