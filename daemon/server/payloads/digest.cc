#include "daemon/server/payloads/digest.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace locksley::daemon {

struct DigestInParts::State {
  State() : hash(XXH3_createState()) {
    if (hash == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(hash);
  }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void add(const void* bytes, std::size_t size) {
    if (size > gathered.size() - used) hash_gathered();
    if (size > gathered.size()) {
      XXH3_128bits_update(hash, bytes, size);
      return;
    }
    if (size != 0) std::memcpy(gathered.data() + used, bytes, size);
    used += size;
  }
  void hash_gathered() { XXH3_128bits_update(hash, gathered.data(), std::exchange(used, 0)); }

  XXH3_state_t* const hash;
  // Short payloads and lengths are hashed together: a call of XXH3 costs as much as some hundred bytes.
  std::array<std::byte, 2048> gathered;
  std::size_t used = 0;
};

DigestInParts::DigestInParts(const proto::ArgumentList& arguments, std::size_t first)
    : state_(std::make_unique<State>()), at_(arguments.begin()), end_(arguments.end()) {
  for (; first != 0 && at_ != end_; --first) ++at_;
}

DigestInParts::~DigestInParts() = default;

std::optional<Digest> DigestInParts::go_on(Instant until) {
  // Between two looks at the clock: some 10 us.
  constexpr std::size_t kPayloads = 1024;
  constexpr std::size_t kBytes = std::size_t{64} * 1024;
  do {
    std::size_t bytes = 0;
    for (std::size_t n = 0; n < kPayloads && bytes < kBytes; ++n) {
      if (at_ == end_) {
        state_->hash_gathered();
        const XXH128_hash_t hash = XXH3_128bits_digest(state_->hash);
        return Digest{hash.low64, hash.high64};
      }
      const std::string_view payload = *at_;
      if (offset_ == 0) {
        const std::uint64_t length = payload.size();  // so that "ab","c" is not "a","bc"
        state_->add(&length, sizeof length);
      }
      const std::string_view part = payload.substr(offset_, kBytes);
      state_->add(part.data(), part.size());
      bytes += part.size();
      offset_ += part.size();
      if (offset_ < payload.size()) continue;
      offset_ = 0;
      ++at_;
    }
  } while (now() < until);
  return std::nullopt;
}

Digest digest_of(const proto::ArgumentList& payloads) { return *DigestInParts(payloads, 0).go_on(kNever); }

}  // namespace locksley::daemon
