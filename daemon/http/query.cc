#include "daemon/http/query.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>

namespace locksley::daemon {
namespace {

// The byte of two hexadecimal digits.
std::optional<char> byte_of(std::string_view digits) {
  unsigned value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 2 || parsed.ec != std::errc() || parsed.ptr != digits.data() + 2) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    const auto byte = byte_of(text.substr(i + 1, 2));
    if (!byte) return std::nullopt;
    result += *byte;
    i += 2;
  }
  return result;
}

std::expected<Query, std::string> Query::parse(std::string_view query,
                                               std::span<const std::string_view> known) {
  Query result;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view name = pair.substr(0, equals);
    if (std::ranges::find(known, name) == known.end()) {
      std::string names;
      for (const std::string_view one : known) names += (names.empty() ? "" : ", ") + std::string(one);
      return std::unexpected("the parameters of this page are: " + (names.empty() ? "none" : names));
    }
    std::string encoded(pair.substr(std::min(equals + 1, pair.size())));
    std::ranges::replace(encoded, '+', ' ');
    auto value = percent_decoded(encoded);
    if (!value) return std::unexpected("the parameter " + std::string(name) + " has a malformed %");
    if (!result.values_.emplace(name, *std::move(value)).second) {
      return std::unexpected("the parameter " + std::string(name) + " appears twice");
    }
  }
  return result;
}

const std::string* Query::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::expected<std::uint64_t, std::string> Query::number(std::string_view name, Range range) const {
  const std::string* const text = find(name);
  if (text == nullptr) return range.otherwise;
  std::uint64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < range.low || value > range.high) {
    return std::unexpected("the parameter " + std::string(name) + " must be a number from " +
                           std::to_string(range.low) + " to " + std::to_string(range.high));
  }
  return value;
}

std::expected<std::uint64_t, std::string> Query::cursor() const {
  return number("cursor", {0, std::numeric_limits<std::int64_t>::max(), 0});
}

}  // namespace locksley::daemon
