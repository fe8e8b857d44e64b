// The tenants of a lane and their customers, as the program limits them.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "core/base/job.h"
#include "core/lane/lane.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/state/group_limits.h"

namespace locksley {

// Sets weights and limits of tenants and of their customers in this lane, as FairRing::Groups does
// in a ring. The limits of a tenant are kept while it has no batches. A call for a customer that
// the ring does not know has no effect: when the customer comes, the function of on_customer() is
// asked. Call set_customer_limits() for customers without batches, too: the ring may know them.
//
// A handle of a lane, which outlives it. Any thread. Nothing blocks for long.
class Lane::Groups {
 public:
  // Set once, before the first batch.
  void on_customer(LimitsOfCustomer limits_of) { lane_.ring_.groups().on_customer(std::move(limits_of)); }

  // Among the tenants of the lane; 0 counts as 1.
  void set_tenant_weight(std::string_view tenant, std::uint32_t weight) {
    lane_.ring_.groups().set_tenant_weight(tenant, weight);
  }
  // These call wake().
  void set_tenant_limits(std::string_view tenant, const GroupLimits& limits) {
    lane_.ring_.groups().set_tenant_limits(tenant, limits, steady_now());
    lane_.wake();
  }
  void set_customer_limits(std::string_view tenant, std::string_view customer, const GroupLimits& limits) {
    lane_.ring_.groups().set_customer_limits(tenant, customer, limits, steady_now());
    lane_.wake();
  }
  // Batches whose account of results (BatchOptions::results) was full are served again if it has
  // room now. Call it when the function of ResultAccount::on_change() is called, and after a limit
  // was raised. O(tenants), with the mutex of the ring, which all executors of the lane need.
  void reopen_tenants() {
    if (lane_.ring_.groups().reopen_tenants()) lane_.wake();
  }

 private:
  friend class Lane;
  explicit Groups(Lane& lane) : lane_(lane) {}

  Lane& lane_;
};

inline Lane::Groups Lane::groups() { return Groups(*this); }

}  // namespace locksley
