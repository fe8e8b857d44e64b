// The owners of batches and connections.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "daemon/server/accounts/account.h"
#include "daemon/server/accounts/customer_terms.h"

namespace locksley::daemon {

struct Customer;

// A user's side of the accounts: the owner of its batches and connections. There is a tenant for
// each name of a user that was configured since the daemon started, or that a batch in the store
// has. It stays when the user is removed from the configuration.
struct Tenant {
  Tenant(std::uint32_t number_in, std::string_view name_in, Account& all)
      : number(number_in), name(name_in), account(&all, "users." + name + ".") {}

  const std::uint32_t number;  // in place of the name where memory has an entry for each of many batches
  const std::string name;
  std::uint32_t weight = 1;
  Account account;
  // About its customers (Customers).
  CustomerTerms customer_terms;               // the terms of a customer without settings
  std::uint64_t customers_with_settings = 0;  // how many
  Customer* nameless = nullptr;               // the one with the empty name; null before the first batch

  // `used` divided by the weight. If some user must lose batches or connections, the user with the
  // greatest burden does.
  double burden(std::uint64_t used) const { return static_cast<double>(used) / weight; }
};

// All tenants, and the account of all together. Owned by the program; outlives the Server and the
// records of all batches. The I/O thread only. Nothing blocks. A tenant is never removed, so
// references to it are valid as long as this object lives. Their number is bounded by what
// operators have configured.
class Tenants {
 public:
  Tenants() = default;
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  Account& account_of_all() { return account_of_all_; }
  const Account& account_of_all() const { return account_of_all_; }

  // The tenant of this name; made by the first call.
  Tenant& of(std::string_view name) {
    if (Tenant* known = find(name)) return *known;
    Tenant& made = all_.emplace_back(static_cast<std::uint32_t>(all_.size()), name, account_of_all_);
    made.customer_terms = customer_terms_;
    by_name_.emplace(made.name, &made);
    return made;
  }
  // Sets the default terms of customers, for tenants that are made from now on.
  void set_customer_terms(const CustomerTerms& terms) { customer_terms_ = terms; }
  // Null if there is none of this name.
  Tenant* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  // In the order of their numbers.
  std::deque<Tenant>& all() { return all_; }
  const std::deque<Tenant>& all() const { return all_; }

 private:
  Account account_of_all_;
  CustomerTerms customer_terms_;
  std::deque<Tenant> all_;  // never moves what is in it
  std::unordered_map<std::string_view, Tenant*> by_name_;
};

}  // namespace locksley::daemon
