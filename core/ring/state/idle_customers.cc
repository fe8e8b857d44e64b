#include "core/ring/state/idle_customers.h"

namespace locksley {

void IdleCustomers::change_count(RingGroup& tenant, std::size_t by) {
  if (by == 0) return;
  size_ += by;
  const auto left = static_cast<std::int64_t>(tenant.idle_customers += by);
  const bool is_listed = tenant.idle_customers_place != kNotInHeap;
  if (left == 0) {
    tenants_.remove(tenant);
  } else if (is_listed) {
    tenants_.update(tenant, -left);
  } else {
    tenants_.push(tenant, -left);
  }
}

void IdleCustomers::forget(RingGroup& customer) {
  RingGroup& tenant = *customer.tenant;
  remove(customer);
  RingCustomers& all = *tenant.customers;
  all.by_name.erase(all.by_name.find(customer.name));
  if (all.by_name.empty()) tenant.customers.reset();
}

void IdleCustomers::forget_settled(RingGroup& tenant, Nanoseconds now) {
  int left = kAtOnce;
  while (tenant.customers != nullptr && !tenant.customers->idle.empty() &&
         tenant.customers->idle.top_key() <= tenant.clock.now) {
    if (left-- == 0) return;
    RingCustomers& all = *tenant.customers;
    RingGroup& customer = all.idle.top();
    if (customer.rate.next_at() <= now) {
      forget(customer);
    } else {
      all.idle.remove(customer);
      customer.is_resting = true;
      all.resting.push(customer, customer.rate.next_at());
    }
  }
  while (tenant.customers != nullptr && !tenant.customers->resting.empty() &&
         tenant.customers->resting.top_key() <= now) {
    if (left-- == 0) return;
    forget(tenant.customers->resting.top());
  }
}

void IdleCustomers::limit(std::size_t most) {
  while (size_ > most) {
    RingCustomers& all = *tenants_.top().customers;
    forget(all.idle.empty() ? all.resting.top() : all.idle.top());
  }
}

}  // namespace locksley
