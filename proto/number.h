// Reads the integers of the wire, strictly. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace locksley::proto {

// Parse a decimal integer of the wire: digits, with a '-' before them if negative; no '+', no
// space, no leading zero, no "-0". None for any other text, and on overflow.
std::optional<std::int64_t> parse_int64(std::string_view text);
std::optional<std::uint64_t> parse_uint64(std::string_view text);

}  // namespace locksley::proto
