#include "daemon/server/accounts/customers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

std::string Customer::key_of_max_jobs() const {
  if (settings.max_jobs) return fmt::format("MAXJOBS of the customer '{}'", name);
  const std::string key = tenant->customer_terms.has_users_limit
                              ? fmt::format("users.{}.customers.max_queued_jobs", tenant->name)
                              : "customers.max_queued_jobs";
  return fmt::format("{}, for the customer '{}',", key, name);
}

Customer* Customers::find(const Tenant& tenant, std::string_view name) const {
  if (name.empty()) return tenant.nameless;
  const auto found = by_name_.find({tenant.number, name});
  return found == by_name_.end() ? nullptr : found->second.get();
}

Customer& Customers::make(Tenant& tenant, std::string_view name) {
  // Batches in the store may belong to a user that is not configured.
  if (!limits_->knows(tenant.name)) limits_->set_default(tenant.name, tenant.customer_terms);
  auto made = std::make_unique<Customer>(tenant, name, next_number_++);
  Customer& customer = *made;
  by_number_.emplace(Place{tenant.number, customer.number}, &customer);
  by_name_.emplace(Key{tenant.number, customer.name}, std::move(made));
  if (name.empty()) tenant.nameless = &customer;
  return customer;
}

Customer& Customers::use(Tenant& tenant, std::string_view name) {
  Customer* const known = find(tenant, name);
  Customer& customer = known == nullptr ? make(tenant, name) : *known;
  if (customer.account == nullptr) customer.account = std::make_unique<Account>(&tenant.account);
  if (customer.uses++ == 0 && !name.empty()) tenant.account.charge(Resource::kRecordBytes, kUseBytes);
  const std::uint64_t most = customer.terms().max_jobs;
  customer.account->set_limit(Resource::kQueuedJobs, most == 0 ? Account::kNoLimit : most);
  return customer;
}

void Customers::drop(Customer& customer) {
  check(customer.uses != 0, "a customer is dropped more often than it was used");
  if (--customer.uses == 0 && !customer.name.empty()) {
    check(customer.account->used(Resource::kQueuedJobs) == 0, "a customer is dropped that has queued jobs");
    customer.account = nullptr;
    customer.tenant->account.refund(Resource::kRecordBytes, kUseBytes);
  }
  remove_if_unused(customer);
}

void Customers::remove_if_unused(Customer& customer) {
  if (customer.is_listed() || customer.name.empty()) return;
  by_number_.erase({customer.tenant->number, customer.number});
  by_name_.erase({customer.tenant->number, customer.name});
}

void Customers::set(Tenant& tenant, std::string_view name, const proto::CustomerSettings& settings) {
  Customer* known = find(tenant, name);
  if (known == nullptr && settings.is_empty()) return;
  if (known == nullptr) known = &make(tenant, name);
  const bool had_any = !known->settings.is_empty();
  known->settings = settings;
  if (had_any != !settings.is_empty()) {
    if (had_any) {
      tenant.account.refund(Resource::kRecordBytes, record_bytes(name));
      --tenant.customers_with_settings;
    } else {
      tenant.account.charge(Resource::kRecordBytes, record_bytes(name));
      ++tenant.customers_with_settings;
    }
  }
  if (settings.is_empty()) {
    limits_->remove(tenant.name, name);
    remove_if_unused(*known);
  } else {
    limits_->set(tenant.name, name, settings);
  }
}

std::uint64_t Customers::list(const Tenant* tenant, std::uint64_t cursor, std::size_t most,
                              const std::function<bool(const Customer&)>& visit) const {
  const Place newest{tenant == nullptr ? ~std::uint32_t{0} : tenant->number, Place::kMostNumber};
  const std::uint32_t last_tenant = tenant == nullptr ? 0 : tenant->number;
  auto next = by_number_.lower_bound(cursor == 0 ? newest : std::min(newest, Place::of(cursor)));
  std::uint64_t last = cursor;
  for (std::size_t looked = 0; next != by_number_.begin(); ++looked) {
    const auto& [place, customer] = *std::prev(next);
    if (place.tenant < last_tenant) break;
    if (looked == most || (customer->is_listed() && !visit(*customer))) return last;
    last = place.cursor();
    --next;
  }
  return 0;
}

std::vector<const Tenant*> Customers::set_defaults(const config::Config& config) {
  std::vector<const Tenant*> changed;
  tenants_.set_customer_terms(default_terms(config.customers, nullptr));
  for (Tenant& tenant : tenants_.all()) {
    const auto user = config.users.find(tenant.name);
    const CustomerTerms terms =
        default_terms(config.customers, user == config.users.end() ? nullptr : &user->second);
    const bool is_other = limits_of(std::exchange(tenant.customer_terms, terms)) != limits_of(terms);
    limits_->set_default(tenant.name, terms);
    if (is_other) changed.push_back(&tenant);
  }
  return changed;
}

}  // namespace locksley::daemon
