// The parameters of a target. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace locksley::daemon {

// The text with each %XX replaced by its byte; none if one is malformed.
std::optional<std::string> percent_decoded(std::string_view text);

// The parameters of a query: name=value, separated by '&'. Values are decoded; a '+' is a space.
class Query {
 public:
  // Each name must be one of `known`, and appear at most once. The error is a sentence.
  static std::expected<Query, std::string> parse(std::string_view query,
                                                 std::span<const std::string_view> known);

  // Null: there is no such parameter.
  const std::string* find(std::string_view name) const;
  // A number of digits only, from `low` to `high`; `otherwise` if there is no such parameter. The
  // error is a sentence.
  struct Range {
    std::uint64_t low;
    std::uint64_t high;
    std::uint64_t otherwise;
  };
  std::expected<std::uint64_t, std::string> number(std::string_view name, Range range) const;
  // The parameter `cursor`: where a list goes on; 0: at its beginning. The error is a sentence.
  std::expected<std::uint64_t, std::string> cursor() const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace locksley::daemon
