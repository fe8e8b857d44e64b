// Payloads that are numbers. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace locksley::daemon {

// The payload as a decimal number from 0 to `max`, digits only. The error says what was expected
// and what was found.
std::expected<std::uint64_t, std::string> parse_number(std::string_view payload, std::uint64_t max);

}  // namespace locksley::daemon
