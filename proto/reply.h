// A reply as a tree, for clients: a ReplyReader builds it from received bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace locksley::proto {

// A reply as a value: RESP2 and RESP3 alike, with null in one form. A plain tree that owns its
// bytes.
struct Reply {
  enum class Type : std::uint8_t {
    kNull,
    kSimple,     // text
    kError,      // text, code first
    kInteger,    // integer
    kBulk,       // text
    kVerbatim,   // text, without the "txt:" in front
    kDouble,     // real
    kBoolean,    // integer: 0 or 1
    kBigNumber,  // text: its digits
    kArray,      // elements; sets too
    kMap,        // elements: key, value, key, value, …
    kPush,       // elements
  };

  Type type = Type::kNull;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<Reply> elements;

  bool is_null() const { return type == Type::kNull; }
  bool is_error() const { return type == Type::kError; }
  bool is_integer() const { return type == Type::kInteger; }
  // Whether it is a simple, bulk or verbatim string.
  bool is_string() const { return type == Type::kSimple || type == Type::kBulk || type == Type::kVerbatim; }
  bool is_aggregate() const { return type == Type::kArray || type == Type::kMap || type == Type::kPush; }

  // The code of an error: its first word.
  std::string_view error_code() const {
    return is_error() ? std::string_view(text).substr(0, text.find(' ')) : std::string_view();
  }

  // The value under `key` in a map, or in an array that is a map of RESP2; null if there is none. A
  // linear search.
  const Reply* find(std::string_view key) const;

  // An integer, or a string that is the decimal of one.
  std::optional<std::int64_t> to_integer() const;
  // A double, an integer, or a string that is the decimal of one.
  std::optional<double> to_real() const;
};

}  // namespace locksley::proto
