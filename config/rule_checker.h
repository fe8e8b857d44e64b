#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/keys.h"
#include "config/origins.h"
#include "config/password_hash.h"
#include "config/problem.h"
#include "config/schema.h"

namespace locksley::config {

// How messages quote a value.
inline std::string shown(std::uint64_t value) { return in_quotes(std::to_string(value)); }
inline std::string shown(Duration value) { return in_quotes(to_string(value)); }
inline std::string shown(Bytes value) { return in_quotes(to_string(value)); }
inline std::string shown(Rate value) { return in_quotes(to_string(value)); }
inline std::string shown(const std::string& value) { return in_quotes(value); }
inline std::string shown(const Exec& value) { return shown(value.max_output); }

// Checks each value by its key's rule.
class RuleChecker final : public PathVisitor {
 public:
  RuleChecker(const Origins& origins, std::vector<Problem>& problems)
      : origins_(origins), problems_(problems) {}

  template <class Entry, class Walk>
  void entries(Key key, const std::map<std::string, Entry>& entries, const TextRule& name_rule,
               const Walk& walk) {
    section(key.name, [&] {
      for (const auto& [name, entry] : entries) {
        if (const auto expected = fault(name_rule, name))
          report(dotted(key.name, name), *expected, in_quotes(name));
        section(name, [&] { walk(*this, entry); });
      }
    });
  }

  template <class T, class Rule>
  void key(Key key, const T& value, const Rule& rule) {
    if (const auto expected = fault(rule, value)) report(path_to(key), *expected, shown(value));
  }

  // Absent texts and lists are empty; CrossChecker decides which texts and lists an entry needs.
  void key(Key key, const std::string& value, const TextRule& rule) {
    if (value.empty() && rule.expected == kText.expected) return;
    if (const auto expected = fault(rule, value)) report(path_to(key), *expected, shown(value));
  }

  void key(Key key, const std::vector<std::string>& value, const ListRule& rule) {
    for (const std::string& item : value) {
      if (const auto expected = fault(rule.item, item)) report(path_to(key), *expected, shown(item));
    }
  }

  void key(Key key, const Slots& value, const SlotsRule& rule) {
    for (const std::string& name : value.names) {
      if (const auto expected = fault(rule.name, name)) return report(path_to(key), *expected, shown(name));
    }
    if (const auto expected = fault(rule, value))
      report(path_to(key), *expected, shown(std::uint64_t{value.count}));
  }

  template <class T, class Rule>
  void key(Key key, const std::optional<T>& value, const Rule& rule) {
    if (value) this->key(key, *value, rule);
  }

  void key(Key key, const std::string& value, HashRule) {
    if (value.empty()) return;  // absent
    if (const auto found = fault_of_hash(value))
      report(path_to(key), std::string(HashRule::kExpected), *found);
  }

  void key(Key key, const std::string& value, DatabaseRule) {
    if (const auto found = fault_of_database(value))
      report(path_to(key), std::string(DatabaseRule::kExpected), *found);
  }

  template <class T>
  void key(Key key, const Limit& value, const LimitRule<T>& rule) {
    const auto expected = fault(rule, value);
    if (!expected) return;
    if constexpr (std::same_as<T, Bytes>) {
      report(path_to(key), *expected, shown(Bytes{value.count}));
    } else {
      report(path_to(key), *expected, shown(value.count));
    }
  }

  template <class T>
  void key(Key, const T&, WordRule) {}

 private:
  void report(const std::string& path, const std::string& expected, const std::string& found) {
    const auto origin = origins_.find(path);
    const Position position = origin == origins_.end() ? Position{} : origin->second.position;
    problems_.push_back(
        {"", position.line, position.column, path, "expected " + expected + ", found " + found, ""});
  }

  const Origins& origins_;
  std::vector<Problem>& problems_;
};

}  // namespace locksley::config
