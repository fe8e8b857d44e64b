// Writes headers and bulk strings of RESP into memory that the caller provides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "proto/decimal.h"

namespace locksley::proto {

// Headers and bulk strings of RESP, written straight into memory that has room for them. Each
// function returns the end. Any thread; nothing blocks or fails.

// Most bytes of a header: type, number, line end.
inline constexpr std::size_t kMaxHeaderBytes = 1 + kMaxDecimalBytes + 2;

// "<type><value>\r\n"
inline char* write_header(char* to, char type, std::uint64_t value) {
  *to++ = type;
  if (value >= 100) return write_line_end(write_decimal(to, value));
  // Most strings are short, and take this path without a call.
  const char* const digits = &kTwoDigits[2 * value];
  if (value >= 10) *to++ = digits[0];
  *to++ = digits[1];
  return write_line_end(to);
}

// As memcpy(). Most payloads and results are short: those of 8 to 32 bytes are copied without a
// call, by two copies that overlap.
inline void copy_bytes(char* to, std::string_view bytes) {
  const char* const from = bytes.data();
  const std::size_t size = bytes.size();
  if (size >= 16 && size <= 32) {
    std::memcpy(to, from, 16);
    std::memcpy(to + size - 16, from + size - 16, 16);
  } else if (size >= 8 && size < 16) {
    std::memcpy(to, from, 8);
    std::memcpy(to + size - 8, from + size - 8, 8);
  } else if (size != 0) {
    std::memcpy(to, from, size);
  }
}

// "<bytes>\r\n"
inline char* write_line(char* to, std::string_view bytes) {
  copy_bytes(to, bytes);
  return write_line_end(to + bytes.size());
}

// "$<length>\r\n<bytes>\r\n"
inline char* write_bulk(char* to, std::string_view bytes) {
  return write_line(write_header(to, '$', bytes.size()), bytes);
}
// The size of such a string in bytes: an upper bound, and the exact value.
constexpr std::size_t max_bulk_bytes(std::size_t length) { return kMaxHeaderBytes + length + 2; }
constexpr std::size_t bulk_bytes(std::size_t length) {
  std::size_t digits = 1;
  for (std::size_t rest = length; rest >= 10; rest /= 10) ++digits;
  return 1 + digits + 2 + length + 2;
}

}  // namespace locksley::proto
