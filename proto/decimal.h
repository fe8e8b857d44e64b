// Writes integers in decimal, and line ends, into memory that the caller provides. Any thread;
// nothing blocks or fails.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>

namespace locksley::proto {

// Most bytes that write_decimal() writes: "-9223372036854775808".
inline constexpr std::size_t kMaxDecimalBytes = 20;

// "00" to "99".
inline constexpr std::array<char, 200> kTwoDigits = [] {
  std::array<char, 200> digits{};
  for (std::size_t i = 0; i < 100; ++i) {
    digits[2 * i] = static_cast<char>('0' + i / 10);
    digits[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return digits;
}();

// Writes the decimal of `value` to `to`, which has room for kMaxDecimalBytes; returns the end.
// Numbers of one or two digits, the most frequent ones in framing, have a faster path.
template <std::integral Integer>
char* write_decimal(char* to, Integer value) {
  if (value >= 0 && value < 10) {
    *to = static_cast<char>('0' + value);
    return to + 1;
  }
  if (value >= 10 && value < 100) {
    const char* const digits = &kTwoDigits[2 * static_cast<std::size_t>(value)];
    to[0] = digits[0];
    to[1] = digits[1];
    return to + 2;
  }
  return std::to_chars(to, to + kMaxDecimalBytes, value).ptr;
}

inline char* write_line_end(char* to) {
  to[0] = '\r';
  to[1] = '\n';
  return to + 2;
}

}  // namespace locksley::proto
