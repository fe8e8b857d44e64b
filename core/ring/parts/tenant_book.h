// The tenants and the customers that a ring knows, and the limits that the program set for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/job.h"
#include "core/fair/fair_node.h"
#include "core/ring/state/group_limits.h"
#include "core/ring/state/idle_customers.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// Owns the tenants, by name, and through them their customers. Keeps those that have no queues for
// a while (FairRing::Options::most_idle_tenants, most_idle_customers), and forgets them then. Knows
// the limits of each; GroupStandings applies them.
//
// A member of the ring, guarded by its mutex. Borrows the clock of the tenants. Only allocation
// fails. O(log(tenants) + log(customers)), unless the call says otherwise.
class TenantBook {
 public:
  using Tenants = std::map<std::string, std::unique_ptr<RingGroup>, std::less<>>;
  struct Options {
    std::size_t most_idle_tenants;
    std::size_t most_idle_customers;
  };

  TenantBook(const FairClock& clock, const Options& options) : clock_(clock), options_(options) {}
  TenantBook(const TenantBook&) = delete;
  TenantBook& operator=(const TenantBook&) = delete;

  // ---- Who is there ----

  const Tenants& tenants() const LOCKSLEY_REQUIRES(kFairNodes) { return tenants_; }
  // Null: the book does not have it.
  RingGroup* tenant(std::string_view name) const LOCKSLEY_REQUIRES(kFairNodes);
  // The group that has the queues of the customer. Null: the book does not have the customer, or
  // the tenant.
  RingGroup* group(std::string_view tenant, std::string_view customer) const LOCKSLEY_REQUIRES(kFairNodes);
  // Calls visit() for each group, a customer before its tenant.
  template <class Visit>
  void for_each_group(Visit visit) const LOCKSLEY_REQUIRES(kFairNodes) {
    for (const auto& [name, tenant] : tenants_) {
      if (tenant->customers != nullptr) {
        for (const auto& [customer_name, customer] : tenant->customers->by_name) visit(*customer);
      }
      visit(*tenant);
    }
  }
  // The queues of all groups. O(queues).
  std::vector<RingQueue*> queues() const LOCKSLEY_REQUIRES(kFairNodes);

  // ---- They come ----

  // A group that is about to get a queue, and therefore cannot be forgotten now.
  struct Entered {
    RingGroup& group;
    bool is_new;  // the caller sets its limits
  };
  Entered enter_tenant(const std::string& name) LOCKSLEY_REQUIRES(kFairNodes);
  // `tenant` has customers.
  Entered enter_customer(RingGroup& tenant, const std::string& name) LOCKSLEY_REQUIRES(kFairNodes);
  // `made` becomes the tenant in the place of `queues`, which becomes its customer "".
  void put_above(RingGroup& queues, std::unique_ptr<RingGroup> made) LOCKSLEY_REQUIRES(kFairNodes);

  // ---- They rest, and are forgotten ----

  // The group has no queues any more.
  void rest_customer(RingGroup& customer) LOCKSLEY_REQUIRES(kFairNodes) { idle_customers_.add(customer); }
  void rest_tenant(RingGroup& tenant) LOCKSLEY_REQUIRES(kFairNodes) {
    idle_.push(tenant, tenant.fair.key);
    forget_tenants();
  }
  // The key of a group without queues has changed.
  void update_idle(RingGroup& group) LOCKSLEY_REQUIRES(kFairNodes);
  // Forgets the tenant's customers whose state equals that of a new customer, and then customers of
  // any tenant beyond Options::most_idle_customers.
  void forget_customers(RingGroup& tenant, Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes) {
    idle_customers_.forget_settled(tenant, now);
    idle_customers_.limit(options_.most_idle_customers);
  }
  // Forgets tenants without queues beyond Options::most_idle_tenants that are not ahead of the
  // virtual time.
  void forget_tenants() LOCKSLEY_REQUIRES(kFairNodes) {
    if (idle_.size() > options_.most_idle_tenants) forget_settled_tenants();
  }
  // Forgets all. No group has a queue.
  void clear() LOCKSLEY_REQUIRES(kFairNodes);
  // RingClocks::set_back_tenants() has returned `by`. O(tenants * gates).
  void set_back(VirtualTime by) LOCKSLEY_REQUIRES(kFairNodes);

  // ---- Limits ----

  // The limits of a tenant, in the book or not, are those that were set last. The limits of a
  // customer are those that the function of FairRing::Groups::on_customer() returns.
  GroupLimits limits_of(const std::string& tenant) const LOCKSLEY_REQUIRES(kFairNodes);
  GroupLimits limits_of(std::string_view tenant, std::string_view customer) const
      LOCKSLEY_REQUIRES(kFairNodes);
  void set_limits(const std::string& tenant, const GroupLimits& limits) LOCKSLEY_REQUIRES(kFairNodes);
  void on_customer(LimitsOfCustomer limits_of) LOCKSLEY_REQUIRES(kFairNodes);

 private:
  void forget_settled_tenants() LOCKSLEY_REQUIRES(kFairNodes);

  const FairClock& clock_;
  const Options options_;
  Tenants tenants_ LOCKSLEY_GUARDED_BY(kFairNodes);
  IdleGroups idle_ LOCKSLEY_GUARDED_BY(kFairNodes);  // tenants
  IdleCustomers idle_customers_ LOCKSLEY_GUARDED_BY(kFairNodes);
  // The limits that were set, also those of tenants that are not in the book.
  std::unordered_map<std::string, GroupLimits> tenant_limits_ LOCKSLEY_GUARDED_BY(kFairNodes);
  LimitsOfCustomer limits_of_ LOCKSLEY_GUARDED_BY(kFairNodes);
};

}  // namespace locksley
