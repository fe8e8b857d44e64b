#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace locksley::config {

// Every duration of the configuration. It converts implicitly to std::chrono::nanoseconds and to
// the clocks' durations; a millisecond count needs an explicit duration_cast.
using Duration = std::chrono::microseconds;

// A number of bytes. A plain count does not convert to it by accident.
struct Bytes {
  std::uint64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

constexpr Bytes kibibytes(std::uint64_t n) { return {n << 10}; }
constexpr Bytes mebibytes(std::uint64_t n) { return {n << 20}; }
constexpr Bytes gibibytes(std::uint64_t n) { return {n << 30}; }

// A limit in bytes or in a number of something: a value, or `auto`, which stands for a value that
// follows from the machine or from another limit (config/auto_limits.h).
struct Limit {
  std::uint64_t count = 0;  // the value in force; for `auto`, the one that derive_limits() has set
  bool is_auto = false;
  // A size is a limit.
  constexpr Limit& operator=(Bytes bytes) {
    count = bytes.count;
    is_auto = false;
    return *this;
  }
  // If both are `auto`, their values are not compared: they follow from the rest.
  bool operator==(const Limit& other) const {
    return is_auto == other.is_auto && (is_auto || count == other.count);
  }
};
constexpr Limit fixed_limit(Bytes bytes) { return {.count = bytes.count}; }
// `count` is in force until derive_limits() is called.
constexpr Limit auto_limit(std::uint64_t count = 0) { return {.count = count, .is_auto = true}; }

// A limit of at most `count` starts in each `period`.
struct Rate {
  std::uint64_t count = 0;
  Duration period = std::chrono::seconds{1};
  bool operator==(const Rate&) const = default;
};

// Why a text is not a valid value.
enum class UnitFault {
  kSyntax,
  kLeadingZero,  // some readers of YAML take the number for octal
  kTooLarge,     // does not fit the type
};

struct UnitError {
  UnitFault fault = UnitFault::kSyntax;
  std::string suggestion;  // the probably intended text, such as 512MiB for 512MB; empty: unknown
};

// Text to value. Digits, then one unit, with nothing between or around them: no sign, fraction or
// leading zero.
//   durations  250us 10ms 30s 5m 24h 3d; a day is 24 hours
//   sizes      64KiB 512MiB 8GiB 1TiB 100B, or a bare number of bytes
//   rates      20/s 300/m 5/h
//   numbers    0 42
std::expected<Duration, UnitError> parse_duration(std::string_view text);
std::expected<Bytes, UnitError> parse_bytes(std::string_view text);
std::expected<Rate, UnitError> parse_rate(std::string_view text);
std::expected<std::uint64_t, UnitError> parse_count(std::string_view text);

// Value to text, in the largest unit that represents it exactly; the text parses back to the same
// value.
std::string to_string(Duration duration);
std::string to_string(Bytes bytes);
std::string to_string(Rate rate);

}  // namespace locksley::config
