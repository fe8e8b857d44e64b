#include "daemon/metrics/server_stats.h"

#include <algorithm>

namespace locksley::daemon {

ErrorCode error_code_of(std::string_view error_text) {
  const std::string_view code = error_text.substr(0, error_text.find(' '));
  for (std::size_t i = 0; i + 1 < kErrorCodes; ++i) {
    if (kErrorCodeNames[i] == code) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::kOther;
}

FullLimit full_limit_of(std::string_view error_text) {
  error_text.remove_prefix(std::min(error_text.size(), std::string_view("QUEUEFULL ").size()));
  if (error_text.starts_with("MAXJOBS ")) return FullLimit::kCustomer;
  // limits.max_customers is a limit of each user; the names of the other limits of a user begin
  // with `users.`, but for the limit on unfinished commands.
  const bool is_users = error_text.starts_with("users.") || error_text.starts_with("limits.max_customers ") ||
                        error_text.starts_with("unfinished commands of the user's clients ");
  return is_users ? FullLimit::kUser : FullLimit::kAll;
}

}  // namespace locksley::daemon
