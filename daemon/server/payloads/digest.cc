#include "daemon/server/payloads/digest.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "proto/bulk.h"

namespace locksley::daemon {

struct DigestInParts::State {
  void add(std::string_view bytes) {
    if (bytes.size() > gathered.size() - used) hash_gathered();
    if (bytes.size() > gathered.size()) return hash.add(bytes);
    proto::copy_bytes(gathered.data() + used, bytes);
    used += bytes.size();
  }
  void hash_gathered() { hash.add({gathered.data(), std::exchange(used, 0)}); }

  Hash128 hash;
  // Short payloads and lengths are hashed together: a call of XXH3 costs as much as some hundred
  // bytes.
  std::array<char, 2048> gathered;
  std::size_t used = 0;
};

DigestInParts::DigestInParts(const proto::ArgumentList& arguments, std::size_t first)
    : state_(std::make_unique_for_overwrite<State>()), at_(arguments.begin()), end_(arguments.end()) {
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
        return state_->hash.value();
      }
      const std::string_view payload = *at_;
      if (offset_ == 0) {
        const std::uint64_t length = payload.size();  // so that "ab","c" is not "a","bc"
        state_->add({reinterpret_cast<const char*>(&length), sizeof length});
      }
      const std::string_view part = payload.substr(offset_, kBytes);
      state_->add(part);
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
