// Whom a client means by the name of a customer.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "daemon/server/accounts/tenants.h"
#include "daemon/server/accounts/users.h"

namespace locksley::daemon {

// A view of the text that was given.
struct CustomerName {
  Tenant* tenant;
  std::string_view name;  // empty: the customer of the empty name
};

// A user names customers of its own. An admin says `user/name`, split at the first `/`, or the name of one of its own. Where
// no users are configured, all of the text is a name. The error is the text of the error reply.
std::expected<CustomerName, std::string> customer_named(const Tenants& tenants, const User& by,
                                                        std::string_view text);

}  // namespace locksley::daemon
