#include "daemon/base/hash128.h"

#include <xxhash.h>

#include <new>

namespace locksley::daemon {

namespace {

Hash128::Value value_of(const XXH128_hash_t& hash) { return {hash.low64, hash.high64}; }

}  // namespace

void Hash128::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Hash128::Hash128() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Hash128::add(std::string_view bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }

Hash128::Value Hash128::value() const { return value_of(XXH3_128bits_digest(state_.get())); }

Hash128::Value Hash128::of(std::string_view bytes) {
  return value_of(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace locksley::daemon
