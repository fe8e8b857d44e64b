#include "proto/number.h"

#include <charconv>
#include <limits>

namespace locksley::proto {
namespace {

template <typename Integer>
std::optional<Integer> parse(std::string_view text) {
  // No integer is longer; a client may send megabytes of digits.
  if (text.size() > std::numeric_limits<std::uint64_t>::digits10 + 1) return std::nullopt;
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return std::nullopt;
  if (digits[0] == '0' && text.size() != 1) return std::nullopt;
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::int64_t> parse_int64(std::string_view text) { return parse<std::int64_t>(text); }
std::optional<std::uint64_t> parse_uint64(std::string_view text) { return parse<std::uint64_t>(text); }

}  // namespace locksley::proto
