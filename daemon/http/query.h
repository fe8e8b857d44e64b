// What is written in a target, behind its path.
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

// Each %XX as its byte; none: one is broken.
std::optional<std::string> percent_decoded(std::string_view text);

// The parameters of a query: name=value, joined by '&'. Values are decoded, a '+' is a space.
class Query {
 public:
  // Each of `known` at most once, and no other. The error is a sentence.
  static std::expected<Query, std::string> parse(std::string_view query,
                                                 std::span<const std::string_view> known);

  // Null: it is not there.
  const std::string* find(std::string_view name) const;
  // A number of digits alone from `low` to `high`; `otherwise`, if it is not there. The error is a sentence.
  struct Range {
    std::uint64_t low;
    std::uint64_t high;
    std::uint64_t otherwise;
  };
  std::expected<std::uint64_t, std::string> number(std::string_view name, Range range) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace locksley::daemon
