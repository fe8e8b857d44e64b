#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

// What a value may be. A rule belongs to a key (schema.h says which); it is applied when the key is read, so
// that the message can show what was written, and again to the finished Config, so that one built in code is
// held to the same.

namespace locksley::config {

// Numbers, durations and sizes: low <= value <= high.
template <class T>
struct Bounds {
  T low;
  T high;
};

struct TextRule {
  std::string_view expected;  // completes "expected ..."
  bool (*accepts)(std::string_view text);
};

// An item of a list; a list that is written has at least one.
struct ListRule {
  TextRule item;
};

// The hash of a password; password_hash.h says what that is. What is none may be a password, and is not
// shown.
struct HashRule {
  static constexpr std::string_view kExpected = "the argon2id hash that `locksley hash-password` prints";
};

// Enumerations have no rule but their table of words.
struct WordRule {};

extern const TextRule kAddress;   // IPv4 or IPv6, numeric
extern const TextRule kName;      // of a handler or a user
extern const TextRule kText;      // at least one character
extern const TextRule kFileName;  // or empty
extern const TextRule kUser;      // likewise; of the machine
extern const ListRule kArguments;
extern const ListRule kNames;
extern const ListRule kPaths;
extern const ListRule kVariables;  // of an environment

// "a whole number from 0 to 1024", "a duration from 10us to 1s", ...
std::string describe(const Bounds<std::uint64_t>& bounds);
std::string describe(const Bounds<Duration>& bounds);
std::string describe(const Bounds<Bytes>& bounds);
std::string describe(const Bounds<Rate>& bounds);

// What was expected instead, if the value breaks the rule.
std::optional<std::string> fault(const Bounds<std::uint64_t>& bounds, std::uint64_t value);
std::optional<std::string> fault(const Bounds<Duration>& bounds, Duration value);
std::optional<std::string> fault(const Bounds<Bytes>& bounds, Bytes value);
std::optional<std::string> fault(const Bounds<Rate>& bounds, Rate value);
std::optional<std::string> fault(const TextRule& rule, const std::string& value);
std::optional<std::string> fault(const ListRule& rule, const std::vector<std::string>& value);

}  // namespace locksley::config
