#include "daemon/metrics/server_stats.h"

namespace locksley::daemon {

ErrorCode error_code_of(std::string_view error_text) {
  const std::string_view code = error_text.substr(0, error_text.find(' '));
  for (std::size_t i = 0; i + 1 < kErrorCodes; ++i) {
    if (kErrorCodeNames[i] == code) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::kOther;
}

}  // namespace locksley::daemon
