// The encoding of the store's rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_range.h"

namespace locksley::daemon {

// The encodings of Protocol Buffers: unsigned integers as base-128 varints, signed integers in
// zigzag form.
constexpr std::size_t kLongestNumber = 10;  // bytes
// Writes a number to memory that has room for it, and returns its end.
inline char* write_number(char* at, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
  *at++ = static_cast<char>(value);
  return at;
}
constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

// Appends numbers in these encodings to a string, and texts after their length.
class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}

  void number(std::uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    out_.push_back(static_cast<char>(value));
  }
  void signed_number(std::int64_t value) { number(zigzag(value)); }
  void flag(bool value) { number(value ? 1 : 0); }
  void text(std::string_view value) {
    number(value.size());
    out_.append(value);
  }

 private:
  std::string& out_;
};

// Reads the bytes of an Encoder. It never reads beyond the bytes, whatever they are: after the
// first invalid value, is_damaged() stays true and all values are 0 or empty. Returned views point
// into the bytes.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return damaged();
  }
  std::int64_t signed_number() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }
  // A number below `end`.
  std::uint64_t number_below(std::uint64_t end) {
    const std::uint64_t value = number();
    return value < end ? value : damaged();
  }
  bool flag() { return number_below(2) != 0; }
  std::string_view text() {
    const std::uint64_t size = number();
    if (size > rest_.size()) {
      damaged();
      return {};
    }
    const std::string_view value = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(value.size());
    return value;
  }

  std::size_t left() const { return rest_.size(); }
  bool is_damaged() const { return damaged_; }
  // Whether everything was read, and all of it was valid.
  bool is_at_end() const { return !damaged_ && rest_.empty(); }

 private:
  std::uint64_t damaged() {
    damaged_ = true;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

inline void put_ranges(Encoder& to, std::span<const IndexRange> ranges) {
  to.number(ranges.size());
  for (const IndexRange& range : ranges) {
    to.number(range.low);
    to.number(range.size());
  }
}
inline std::vector<IndexRange> take_ranges(Decoder& from) {
  std::vector<IndexRange> ranges;
  std::uint64_t left = from.number();
  // There may be millions of ranges, so their memory is reserved at once. The number may be
  // damaged, so the bytes that are left bound it.
  ranges.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(left, from.left() / 2)));
  for (; left > 0 && !from.is_damaged(); --left) {
    const std::uint64_t low = from.number();
    ranges.push_back({low, low + from.number()});
  }
  return ranges;
}

}  // namespace locksley::daemon
