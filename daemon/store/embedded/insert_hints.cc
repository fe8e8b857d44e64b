#include "daemon/store/embedded/insert_hints.h"

#include <cstdint>

#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

bool InsertHints::has_hint(std::string_view key) {
  constexpr std::size_t kSize = 1 + sizeof(std::uint64_t);  // as row_key() makes it
  return key.size() == kSize && (key[0] == kAcceptedKey || key[0] == kChangesKey || key[0] == kEndKey);
}

}  // namespace locksley::daemon
