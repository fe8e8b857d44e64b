#include "daemon/server/records/batch_id.h"

#include <string_view>

namespace locksley::daemon {

std::string BatchIds::next(std::int64_t unix_seconds) {
  // Crockford's alphabet: none of i, l, o, u, so that an id can be read aloud.
  constexpr std::string_view kDigits = "0123456789abcdefghjkmnpqrstvwxyz";
  constexpr std::int64_t kEpoch = 1'767'225'600;  // 2026-01-01; 30 bits of seconds last 34 years from it
  const auto seconds = static_cast<std::uint64_t>(unix_seconds - kEpoch) & ((std::uint64_t{1} << 30) - 1);
  std::uint64_t bits = random_();
  std::string id(13, '0');
  for (std::size_t i = 0; i < 6; ++i) id[i] = kDigits[(seconds >> (5 * (5 - i))) & 31];
  for (std::size_t i = 6; i < id.size(); ++i, bits >>= 5) id[i] = kDigits[bits & 31];
  return id;
}

}  // namespace locksley::daemon
