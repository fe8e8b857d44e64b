// The customers of a ring that have no queues, and which of them it forgets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/job.h"
#include "core/fair/indexed_heap.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"

namespace locksley {

// A customer without queues is kept while it would gain by being forgotten: while its key is ahead
// of the virtual time, or its rate admits no start. If too many are kept, the tenant that has most
// of them loses one. So a tenant with very many customers does not erase the debts of another
// tenant's customers.
//
// A member of the ring, which owns the customers in RingCustomers::by_name; guarded by its mutex.
// O(log customers + log tenants) for each customer that comes, leaves or is forgotten. Only
// allocation fails.
class IdleCustomers {
 public:
  // The last queue of the customer has left.
  void add(RingGroup& customer) LOCKSLEY_REQUIRES(kFairNodes) {
    customer.tenant->customers->idle.push(customer, customer.fair.key);
    change_count(*customer.tenant, 1);
  }
  // A queue of the customer has come.
  void remove(RingGroup& customer) LOCKSLEY_REQUIRES(kFairNodes) {
    RingCustomers& all = *customer.tenant->customers;
    if (customer.is_resting) {
      customer.is_resting = false;
      all.resting.remove(customer);
    } else {
      all.idle.remove(customer);
    }
    change_count(*customer.tenant, -std::size_t{1});
  }
  // Forgets customers of the tenant whose state equals that of a new customer, but at most kAtOnce:
  // very many may reach that state at the same moment. Later calls forget the others. Once the
  // tenant has no customers, its members are queues again.
  static constexpr int kAtOnce = 32;  // guess: some 20 us with the mutex
  void forget_settled(RingGroup& tenant, Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes);
  // Forgets customers, of whatever tenants, until they are no more than `most`. Of each tenant
  // first those that are ahead, the one that is least ahead first; then those that wait for their
  // rate only, the one that may start soonest first.
  void limit(std::size_t most) LOCKSLEY_REQUIRES(kFairNodes);
  // The tenant is about to be removed, with all its customers.
  void tenant_leaves(RingGroup& tenant) LOCKSLEY_REQUIRES(kFairNodes) {
    if (tenant.customers != nullptr) change_count(tenant, -tenant.customers->idle_size());
  }

 private:
  // `by` more customers of the tenant are idle; modulo 2^64. Call it after the change.
  void change_count(RingGroup& tenant, std::size_t by) LOCKSLEY_REQUIRES(kFairNodes);
  void forget(RingGroup& customer) LOCKSLEY_REQUIRES(kFairNodes);

  // Not checked, since IndexedHeap knows no locks: it is called by the heap below, under the mutex.
  static std::uint32_t& place_of(RingGroup& tenant) LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS {
    return tenant.idle_customers_place;
  }
  // Tenants with idle customers. The key is the number of these, negative: the tenant with most is
  // at the top.
  IndexedHeap<RingGroup, std::int64_t, &IdleCustomers::place_of> tenants_;
  std::size_t size_ = 0;  // of all tenants
};

}  // namespace locksley
