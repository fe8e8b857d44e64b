#include "daemon/server/content.h"

#include <xxhash.h>

#include <algorithm>

#include "daemon/server/received_payloads.h"

namespace locksley::daemon {

Digest digest_of(const proto::ArgumentList& payloads) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state.get());
  for (const std::string_view payload : payloads) {
    const std::uint64_t length = payload.size();  // so that "ab","c" is not "a","bc"
    XXH3_128bits_update(state.get(), &length, sizeof length);
    XXH3_128bits_update(state.get(), payload.data(), payload.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return {hash.low64, hash.high64};
}

bool Content::is_same(const proto::ArgumentList& payloads) const {
  if (range != nullptr || jobs != payloads.size()) return false;
  if (received != nullptr) return std::equal(payloads.begin(), payloads.end(), received->payloads()->begin());
  return digest.has_value() && *digest == digest_of(payloads);
}

bool Content::is_same(const proto::RangeSource& other) const {
  return range != nullptr && range->low == other.low && range->high == other.high &&
         range->payload == other.payload;
}

void Content::release(bool keep_digest, std::unique_ptr<PayloadSource> stored) {
  if (received == nullptr) return;
  if (keep_digest && !digest) digest = digest_of(*received->payloads());
  std::exchange(received, nullptr)->release(std::move(stored));
}

}  // namespace locksley::daemon
