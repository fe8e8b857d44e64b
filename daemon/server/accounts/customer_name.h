// Finds the customer that a client names. The I/O thread only, as for Tenants; nothing blocks.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "daemon/server/accounts/tenants.h"
#include "daemon/server/accounts/users.h"

namespace locksley::daemon {

// A customer, by name: `name` is a view of the client's text.
struct CustomerName {
  Tenant* tenant;
  std::string_view name;  // empty: the customer of the empty name
};

// A user names its own customers. An admin names a customer as `user/name`, split at the first `/`,
// or its own customer by the name alone. Where no users are configured, the whole text is a name.
// The error is the text of the error reply.
std::expected<CustomerName, std::string> customer_named(const Tenants& tenants, const User& by,
                                                        std::string_view text);

}  // namespace locksley::daemon
