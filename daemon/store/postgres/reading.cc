#include "daemon/store/postgres/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace locksley::daemon {

const char* name_of(Table table) {
  constexpr std::array kNames{"locksley_index", "locksley_payload", "locksley_result"};
  return kNames[static_cast<std::size_t>(table)];
}

Parameter place_name(Table table) {
  return Parameter::one_char(static_cast<unsigned char>('0' + static_cast<int>(table)));
}

std::string lock_sql(Table table) {
  return fmt::format("lock table {} in access share mode", name_of(table));
}

EngineError reading_error(PgError error) {
  // The connection; a transaction that was rolled back; resources; a lock; an administrator, or the
  // end of the server.
  constexpr std::array<std::string_view, 5> kPassing{"08", "40", "53", "55", "57"};
  const bool passes =
      error.is_lost() || std::ranges::find(kPassing, error.state.substr(0, 2)) != kPassing.end();
  using Kind = EngineError::Kind;
  if (passes && error.error.kind != Kind::kDamaged && error.error.kind != Kind::kNotOpen)
    error.error.kind = Kind::kAway;
  return std::move(error.error);
}

}  // namespace locksley::daemon
