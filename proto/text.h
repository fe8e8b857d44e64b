// ASCII text of the wire: names in any case, and received bytes in messages. Any thread; nothing
// blocks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locksley::proto {

// An ASCII letter in lower case; any other character as it is.
constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// Whether two names of commands or options are equal; ASCII letters of either case are equal.
constexpr bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && to_lower(a[i]) != to_lower(b[i])) return false;
  }
  return true;
}

// ASCII letters in upper case, for names in messages.
std::string in_capitals(std::string_view text);

// Received text for quotation in an error: cut at `max` bytes; bytes outside printable ASCII are
// replaced.
std::string printable(std::string_view text, std::size_t max = 128);

}  // namespace locksley::proto
