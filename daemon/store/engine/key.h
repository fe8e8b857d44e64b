// The keys of the store's rows. Any thread; nothing blocks or fails.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace locksley::daemon {

// The key of a row; rows lie in the order of their keys. In the index, a key is a letter, which is
// the kind of the row, and then one or two 64-bit numbers, the first of which is the batch; in the
// other tables, it is two numbers. Numbers are big-endian, so that keys sort as their numbers do,
// and an engine can take a key apart. Only the settings of customers have names in place of numbers
// (kCustomerKey; customer_key() in rows.h). The key of a row that the store has once, without a
// batch, is a letter.
//
// A value of fixed size, without memory of its own.
class Key {
 public:
  static constexpr std::size_t kMost = 1 + 2 * sizeof(std::uint64_t);

  Key() = default;
  explicit Key(char kind) { bytes_[size_++] = kind; }
  Key& append(std::uint64_t number) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes_[size_++] = static_cast<char>(number >> shift);
    return *this;
  }

  operator std::string_view() const { return {bytes_.data(), size_}; }
  friend bool operator==(const Key& a, const Key& b) { return std::string_view(a) == std::string_view(b); }
  friend auto operator<=>(const Key& a, const Key& b) { return std::string_view(a) <=> std::string_view(b); }

 private:
  std::array<char, kMost> bytes_{};
  std::uint8_t size_ = 0;
};

// The kind of the rows of the index whose keys have names in place of numbers.
inline constexpr char kCustomerKey = 'u';

// A number in a key.
inline std::uint64_t key_number(std::string_view eight_bytes) {
  std::uint64_t number = 0;
  for (const char byte : eight_bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}
// The batch in a key of the index. Needs: the row belongs to a batch.
inline std::uint64_t batch_in(std::string_view key) {
  return key_number(key.substr(1, sizeof(std::uint64_t)));
}

}  // namespace locksley::daemon
