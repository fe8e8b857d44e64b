#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace locksley::proto {

// Decimal integers as the wire has them: digits, a '-' in front if negative, nothing else; no '+', no space,
// no leading zero, no "-0". Nothing on anything else and on overflow.
std::optional<std::int64_t> parse_int64(std::string_view text);
std::optional<std::uint64_t> parse_uint64(std::string_view text);

}  // namespace locksley::proto
