#include "daemon/store/migration/table_digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "daemon/store/key.h"

namespace locksley::daemon {

void TableDigest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

TableDigest::TableDigest() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

// Sizes first, so that no two lists of rows are the same bytes.
void TableDigest::add(std::string_view key, std::string_view value) {
  add_bytes(Key().append(key.size()).append(value.size()));
  add_bytes(key);
  add_bytes(value);
}

void TableDigest::add_bytes(std::string_view bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string TableDigest::digits() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace locksley::daemon
