// The values of a whole reply, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "daemon/upstream/replies/short_bulk.h"

namespace locksley::daemon {

// Reads a reply that ReplyScanner found whole. After a value of another kind than asked for,
// is_bad() is true and all further values are empty. Views refer to the reply's bytes. A value on
// the stack; nothing blocks.
class ReplyCursor {
 public:
  explicit ReplyCursor(std::string_view reply) : rest_(reply) {}

  bool is_bad() const { return is_bad_; }
  bool at_end() const { return rest_.empty(); }
  bool is_error() const { return !rest_.empty() && (rest_.front() == '-' || rest_.front() == '!'); }
  bool is_push() const { return rest_.starts_with('>'); }
  bool is_array() const { return rest_.starts_with('*'); }
  bool is_null() const {
    return rest_.starts_with('_') || rest_.starts_with("$-1") || rest_.starts_with("*-1");
  }

  // A string of any form, or the text of an error.
  std::string_view text() {
    const ShortBulk bulk = read_short_bulk(rest_);
    const std::size_t size = std::size_t{bulk.header} + bulk.length + 2;
    if (bulk.header == 0 || rest_.size() < size) return any_text();
    const std::string_view bytes(rest_.data() + bulk.header, bulk.length);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::int64_t integer();
  std::uint64_t count() {  // an integer that is not negative
    const std::int64_t value = integer();
    if (value < 0) is_bad_ = true;
    return value < 0 ? 0 : static_cast<std::uint64_t>(value);
  }
  // How many values follow in an array, a set or a push; in a map, keys and values together.
  std::uint64_t array();
  // Skips the next value with all its elements.
  void skip();
  std::string_view rest() const { return rest_; }

 private:
  struct Header {
    char type = 0;
    std::string_view line;
  };
  Header header();
  std::string_view any_text();
  std::int64_t number(std::string_view digits);
  void fail() {
    is_bad_ = true;
    rest_ = {};
  }

  std::string_view rest_;
  bool is_bad_ = false;
};

}  // namespace locksley::daemon
