// The terms of a customer of a user, and the limits that follow from them for the scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "config/config.h"
#include "core/ring/state/group_limits.h"
#include "core/sync/mutex.h"
#include "proto/customer_settings.h"

namespace locksley::daemon {

// A plain value: all of a customer's settings, each its own or the default's.
struct CustomerTerms {
  std::uint32_t weight = 1;
  std::uint32_t slots = 0;       // jobs at once; 0: no limit
  proto::CustomerRate rate;      // of starts
  std::uint64_t max_jobs = 0;    // accepted and not ended; 0: no limit
  bool has_users_limit = false;  // `max_jobs` comes from users.NAME.customers, not from `customers`

  friend bool operator==(const CustomerTerms&, const CustomerTerms&) = default;
};

// The terms of this user's customers that have no settings. `user` is null if the user is not
// configured.
CustomerTerms default_terms(const config::Customers& customers, const config::User* user);
CustomerTerms with_settings(CustomerTerms defaults, const proto::CustomerSettings& settings);

// The terms in the units of the scheduler.
GroupLimits limits_of(const CustomerTerms& terms);

// The limits of customers: the default of each user, and the settings of customers that have some,
// each with 150 bytes and its name. A lane asks for the limits when a customer comes
// (Lane::Groups::on_customer()).
//
// Shared by Customers, which changes it, and by the lanes; the last of them drops it. Any thread
// may call each function, which holds a mutex for one look-up, O(log n). Nothing blocks for longer,
// or fails.
class CustomerLimits {
 public:
  CustomerLimits() = default;
  CustomerLimits(const CustomerLimits&) = delete;
  CustomerLimits& operator=(const CustomerLimits&) = delete;

  // An unknown user has no limits, and the weight 1.
  GroupLimits of(std::string_view user, std::string_view customer) const LOCKSLEY_EXCLUDES(mutex_);
  void set_default(std::string_view user, const CustomerTerms& terms) LOCKSLEY_EXCLUDES(mutex_);
  bool knows(std::string_view user) const LOCKSLEY_EXCLUDES(mutex_);
  void set(std::string_view user, std::string_view customer, const proto::CustomerSettings& settings)
      LOCKSLEY_EXCLUDES(mutex_);
  // The customer has the default limits again.
  void remove(std::string_view user, std::string_view customer) LOCKSLEY_EXCLUDES(mutex_);

 private:
  // Trees: a hash table moves all its entries at once when it grows, under the ring's mutex.
  struct OfUser {
    CustomerTerms usual;
    std::map<std::string, proto::CustomerSettings, std::less<>> own;
  };

  mutable Mutex mutex_;
  std::map<std::string, OfUser, std::less<>> users_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon
