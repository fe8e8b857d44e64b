#include "daemon/server/accounts/customer_name.h"

#include <fmt/format.h>

#include "proto/batch_options.h"
#include "proto/text.h"

namespace locksley::daemon {

std::expected<CustomerName, std::string> customer_named(const Tenants& tenants, const User& by,
                                                        std::string_view text) {
  CustomerName result{&by.tenant(), text};
  const std::size_t slash = text.find('/');
  if (by.is_admin() && !by.is_everybody() && slash != std::string_view::npos) {
    result = {tenants.find(text.substr(0, slash)), text.substr(slash + 1)};
    if (result.tenant == nullptr) {
      return std::unexpected(
          fmt::format("ERR no user is named '{}': an admin names a customer as user/customer",
                      proto::printable(text.substr(0, slash))));
    }
  }
  if (result.name.empty() || proto::is_valid_customer(result.name)) return result;
  return std::unexpected(fmt::format("ERR the name of a customer needs {}, found '{}'",
                                     proto::internal::kCustomerExpected, proto::printable(result.name)));
}

}  // namespace locksley::daemon
