// The customers of users: those that have unfinished batches, and those that have settings
// (CUSTOMER SET).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "daemon/server/accounts/account.h"
#include "daemon/server/accounts/customer_terms.h"
#include "daemon/server/accounts/tenants.h"
#include "proto/customer_settings.h"

namespace locksley::daemon {

// A customer of a user. It exists while it has unfinished batches or settings of its own. The
// customer with the empty name, to which all batches of the user belong that name none, stays. Made
// and removed by Customers. The I/O thread only.
struct Customer {
  Customer(Tenant& tenant_in, std::string_view name_in, std::uint64_t number_in)
      : tenant(&tenant_in), name(name_in), number(number_in) {}

  Tenant* const tenant;
  const std::string name;
  const std::uint64_t number;  // higher for each new customer; the order of CUSTOMER LIST
  proto::CustomerSettings settings;
  std::uint64_t uses = 0;  // unfinished batches, and commands that bring one
  // A child of the user's account. Null: the customer is not in use. The customer with the empty
  // name keeps its account after its first use.
  std::unique_ptr<Account> account;

  CustomerTerms terms() const { return with_settings(tenant->customer_terms, settings); }
  bool is_listed() const { return uses != 0 || !settings.is_empty(); }
  // For errors: "MAXJOBS of the customer 'a'", "customers.max_queued_jobs".
  std::string key_of_max_jobs() const;
};

// All customers of all users.
//
// Charges. Jobs, batches and payloads that have not ended are charged to the account of their
// customer, and so to its parents. All else is charged to the account of the user, since a batch
// that is over keeps no customer in memory. The memory of a customer with a name is charged to the
// user's Resource::kRecordBytes, from its first use to its last.
//
// Owned by the Registry; Tenants outlives it. Batches that are not over refer to their customer.
// The I/O thread only. Nothing blocks. A look-up is O(log n), and O(1) for the customer with the
// empty name. Trees, since a hash table moves all its entries at once when it grows, and clients
// choose the names.
class Customers {
 public:
  explicit Customers(Tenants& tenants) : tenants_(tenants), limits_(std::make_shared<CustomerLimits>()) {}
  Customers(const Customers&) = delete;
  Customers& operator=(const Customers&) = delete;

  // The object that the lanes ask for limits.
  std::shared_ptr<const CustomerLimits> limits() const { return limits_; }

  // Begins to use the customer; makes it if there is none. Its account gets the limits of its
  // present terms, and may be over them afterwards: the caller that brings a batch asks whether
  // there is room for it.
  Customer& use(Tenant& tenant, std::string_view name);
  Customer& use_again(Customer& customer) {
    ++customer.uses;
    return customer;
  }
  // Ends a use, and may destroy the customer. Needs: the charges of the use are refunded.
  void drop(Customer& customer);
  // Null: it has neither unfinished batches nor settings.
  Customer* find(const Tenant& tenant, std::string_view name) const;

  // Replaces all settings of the customer; for an empty one the default counts. May destroy the
  // customer. Charges the user for the settings. The caller informs the lanes.
  void set(Tenant& tenant, std::string_view name, const proto::CustomerSettings& settings);
  // The charge for a customer in use, in bytes: the object, its account, its place in a lane.
  // Measured over 100,000.
  static constexpr std::uint64_t kUseBytes = 1400;
  // The charge for the settings of one more customer, in bytes.
  static std::uint64_t record_bytes(std::string_view name) { return kSettingsBytes + name.size(); }

  // Visits the listed customers of the user, newest first, from `cursor` on, until `visit` returns
  // false; looks at no more than `most`. `tenant` null: of all users, one after the other. `cursor`
  // 0: from the first. Returns the cursor to go on from, which stays valid while customers come and
  // go; 0: there are no more.
  std::uint64_t list(const Tenant* tenant, std::uint64_t cursor, std::size_t most,
                     const std::function<bool(const Customer&)>& visit) const;

  // Puts the defaults of the configuration in force. Returns the users whose default has changed:
  // the caller informs the lanes. O(users).
  std::vector<const Tenant*> set_defaults(const config::Config& config);

 private:
  // Bytes of a customer that only has settings: the object with its heap, its place in two maps,
  // its limits. Measured over 200,000.
  static constexpr std::uint64_t kSettingsBytes = 450;

  Customer& make(Tenant& tenant, std::string_view name);
  void remove_if_unused(Customer& customer);

  // By Tenant::number; the customer owns the characters of the name.
  struct Key {
    std::uint32_t tenant;
    std::string_view name;
    auto operator<=>(const Key&) const = default;
  };
  struct Place {
    std::uint32_t tenant;
    std::uint64_t number;
    auto operator<=>(const Place&) const = default;

    // A cursor has room for a million users, and for a hundred thousand new customers a second for
    // years.
    static constexpr unsigned kNumberBits = 43;
    static constexpr std::uint64_t kMostNumber = (std::uint64_t{1} << kNumberBits) - 1;
    std::uint64_t cursor() const { return std::uint64_t{tenant} << kNumberBits | number; }
    static Place of(std::uint64_t cursor) {
      return {static_cast<std::uint32_t>(cursor >> kNumberBits), cursor & kMostNumber};
    }
  };

  Tenants& tenants_;
  const std::shared_ptr<CustomerLimits> limits_;
  std::map<Key, std::unique_ptr<Customer>> by_name_;
  std::map<Place, Customer*> by_number_;
  std::uint64_t next_number_ = 1;
};

// A use of a customer for the length of a command. On the stack of the function that makes it.
class CustomerUse {
 public:
  CustomerUse(Customers& customers, Tenant& tenant, std::string_view name)
      : customers_(customers), customer_(customers.use(tenant, name)) {}
  ~CustomerUse() { customers_.drop(customer_); }
  CustomerUse(const CustomerUse&) = delete;
  CustomerUse& operator=(const CustomerUse&) = delete;

  Customer& operator*() const { return customer_; }
  Customer* operator->() const { return &customer_; }

 private:
  Customers& customers_;
  Customer& customer_;
};

}  // namespace locksley::daemon
