// The header of a short string in a reply. Any thread; nothing blocks or fails.
#pragma once

#include <cstdint>
#include <string_view>

namespace locksley::daemon {

// "$7\r\n" or "$32\r\n", the headers of nearly all strings of a lease. All others are read by their
// line ends.
struct ShortBulk {
  std::uint32_t header = 0;  // its bytes; 0: not such a header, or an incomplete one
  std::uint32_t length = 0;  // of the string after it, which may not be whole
};

inline ShortBulk read_short_bulk(std::string_view bytes) {
  if (bytes.size() < 5 || bytes[0] != '$') return {};
  const auto first = static_cast<unsigned>(bytes[1] - '0');
  if (first > 9) return {};
  if (bytes[2] == '\r') return bytes[3] == '\n' ? ShortBulk{4, first} : ShortBulk{};
  const auto second = static_cast<unsigned>(bytes[2] - '0');
  if (second > 9 || bytes[3] != '\r' || bytes[4] != '\n') return {};
  return {5, first * 10 + second};
}

}  // namespace locksley::daemon
