#include "daemon/server/accounts/customer_terms.h"

#include "core/base/start_rate.h"

namespace locksley::daemon {

namespace {

proto::CustomerRate rate_of(const config::Rate& rate) {
  if (rate.count == 0) return {};
  return {static_cast<std::uint32_t>(rate.count),
          std::chrono::duration_cast<std::chrono::seconds>(rate.period)};
}

}  // namespace

CustomerTerms default_terms(const config::Customers& customers, const config::User* user) {
  const config::UserCustomers none;
  const config::UserCustomers& own = user == nullptr ? none : user->customers;
  return {.weight = own.weight.value_or(customers.weight),
          .slots = own.slots.value_or(customers.slots),
          .rate = rate_of(own.rate.value_or(customers.rate)),
          .max_jobs = own.max_queued_jobs.value_or(customers.max_queued_jobs),
          .has_users_limit = own.max_queued_jobs.has_value()};
}

CustomerTerms with_settings(CustomerTerms defaults, const proto::CustomerSettings& settings) {
  defaults.weight = settings.weight.value_or(defaults.weight);
  defaults.slots = settings.slots.value_or(defaults.slots);
  defaults.rate = settings.rate.value_or(defaults.rate);
  defaults.max_jobs = settings.max_jobs.value_or(defaults.max_jobs);
  return defaults;
}

GroupLimits limits_of(const CustomerTerms& terms) {
  return {.weight = terms.weight,
          .slots = terms.slots,
          .start_interval = start_interval(terms.rate.count, terms.rate.period)};
}

GroupLimits CustomerLimits::of(std::string_view user, std::string_view customer) const {
  const MutexLock lock(mutex_);
  const auto known = users_.find(user);
  if (known == users_.end()) return {};
  const auto own = known->second.own.find(customer);
  const CustomerTerms& usual = known->second.usual;
  return limits_of(own == known->second.own.end() ? usual : with_settings(usual, own->second));
}

void CustomerLimits::set_default(std::string_view user, const CustomerTerms& terms) {
  const MutexLock lock(mutex_);
  users_[std::string(user)].usual = terms;
}

bool CustomerLimits::knows(std::string_view user) const {
  const MutexLock lock(mutex_);
  return users_.contains(user);
}

void CustomerLimits::set(std::string_view user, std::string_view customer,
                         const proto::CustomerSettings& settings) {
  const MutexLock lock(mutex_);
  users_[std::string(user)].own[std::string(customer)] = settings;
}

void CustomerLimits::remove(std::string_view user, std::string_view customer) {
  const MutexLock lock(mutex_);
  const auto known = users_.find(user);
  if (known == users_.end()) return;
  if (const auto own = known->second.own.find(customer); own != known->second.own.end())
    known->second.own.erase(own);
}

}  // namespace locksley::daemon
