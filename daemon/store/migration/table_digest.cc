#include "daemon/store/migration/table_digest.h"

#include <fmt/format.h>

#include "daemon/store/engine/key.h"

namespace locksley::daemon {

// Sizes first, so that no two lists of rows are the same bytes.
void TableDigest::add(std::string_view key, std::string_view value) {
  hash_.add(Key().append(key.size()).append(value.size()));
  hash_.add(key);
  hash_.add(value);
}

std::string TableDigest::digits() const {
  const Hash128::Value hash = hash_.value();
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

}  // namespace locksley::daemon
