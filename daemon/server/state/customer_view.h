// The client's view of customers: CUSTOMER GET and LIST, and their JSON.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/customer_terms.h"

namespace locksley::daemon {

class ServerState;
class User;
struct Tenant;

// A customer, as the CUSTOMER commands show it.
struct CustomerSeen {
  std::string_view tenant;
  std::string customer;
  CustomerTerms terms;
  bool is_set = false;        // it has settings of its own (CUSTOMER SET)
  std::uint64_t batches = 0;  // that are not over
  std::uint64_t jobs = 0;     // that have not ended
  // As the lanes have it: sums over lanes, and the largest of the fractions.
  std::uint64_t queued = 0;  // not claimed
  std::uint64_t running = 0;
  double share = 0;
  double received = 0;
};

// `customer`: as the client names it (customer_named()). A customer without settings and batches
// has the default terms. The error is the text of the error reply. O(lanes).
std::expected<CustomerSeen, std::string> customer_seen(const ServerState& state, const User& by,
                                                       std::string_view customer)
    LOCKSLEY_REQUIRES(kIoThread);

// A page of the customers that have settings, or batches that are not over, newest first. A page
// may be short, or empty, and not be the last: it ends after some 300 us.
struct CustomerPage {
  std::uint64_t next = 0;  // the cursor of the next page; 0: this is the last
  std::vector<CustomerSeen> customers;
};
// The request for a page: which customers it has.
struct CustomerDemand {
  const Tenant* tenant = nullptr;         // null: of all users, one after the other
  std::optional<std::string_view> match;  // a glob for the name, or, of all users, for user/name
  std::uint64_t cursor = 0;
  std::uint64_t count = 0;
};
// Whose customers CUSTOMER LIST shows to this user: its own; an admin sees those of all users.
const Tenant* customers_of(const User& by);
CustomerPage customers_seen(const ServerState& state, const CustomerDemand& demand)
    LOCKSLEY_REQUIRES(kIoThread);

// Calls `visit` with each key and its value, which is a text, a number, a fraction or a bool.
inline constexpr std::size_t kCustomerMembers = 13;
template <class Visit>
void visit_members(const CustomerSeen& customer, const Visit& visit) {
  visit("tenant", customer.tenant);
  visit("customer", std::string_view(customer.customer));
  visit("weight", std::uint64_t{customer.terms.weight});
  visit("slots", std::uint64_t{customer.terms.slots});
  visit("rate", std::string_view(to_string(customer.terms.rate)));
  visit("max_jobs", customer.terms.max_jobs);
  visit("set", customer.is_set);
  visit("batches", customer.batches);
  visit("jobs", customer.jobs);
  visit("queued", customer.queued);
  visit("running", customer.running);
  visit("share", customer.share);
  visit("received", customer.received);
}

}  // namespace locksley::daemon
