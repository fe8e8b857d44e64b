// Look-up of a name among those of a table that the compiler knows: of commands, subcommands and
// options.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proto/text.h"

namespace locksley::proto {

// Finds a name, in any case, among N names that are known when the program is compiled: one hash,
// one comparison. The hash covers a name's length and four of its letters; the compiler searches
// for a multiplier with which no two names share a place. Constant data: any thread.
template <std::size_t N>
class NameTable {
 public:
  static_assert(N < 0xFF);
  static constexpr std::size_t kNone = N;

  consteval explicit NameTable(const std::array<std::string_view, N>& names) : names_(names) {
    while (!try_fill()) multiplier_ += 2;
  }

  // The index of `name`, or kNone.
  constexpr std::size_t find(std::string_view name) const {
    if (name.empty()) return kNone;
    const std::size_t index = places_[place_of(name)];
    return index < N && equals_ignoring_case(names_[index], name) ? index : kNone;
  }

 private:
  static constexpr std::size_t kPlaces = 256;

  constexpr std::size_t place_of(std::string_view name) const {
    // The lower five bits of a letter are the same in both cases.
    const auto letter = [&](std::size_t i) { return static_cast<std::uint32_t>(name[i]) & 0x1F; };
    const std::size_t n = name.size();
    const std::uint32_t key = letter(0) | letter(n / 2) << 5 | letter(n - 1) << 10 |
                              letter(n > 1 ? 1 : 0) << 15 | static_cast<std::uint32_t>(n & 0x1F) << 20;
    return (key * multiplier_) >> 24;
  }

  constexpr bool try_fill() {
    places_.fill(static_cast<std::uint8_t>(N));
    for (std::size_t i = 0; i < N; ++i) {
      std::uint8_t& place = places_[place_of(names_[i])];
      if (place != N) return false;
      place = static_cast<std::uint8_t>(i);
    }
    return true;
  }

  std::array<std::string_view, N> names_;
  std::array<std::uint8_t, kPlaces> places_{};
  std::uint32_t multiplier_ = 0x9E3779B1;
};

// `rows` is an array of structs with a member `name`.
template <class Row, std::size_t N>
consteval NameTable<N> name_table(const Row (&rows)[N]) {
  std::array<std::string_view, N> names{};
  for (std::size_t i = 0; i < N; ++i) names[i] = rows[i].name;
  return NameTable<N>(names);
}
template <class Row, std::size_t N>
consteval NameTable<N> name_table(const std::array<Row, N>& rows) {
  std::array<std::string_view, N> names{};
  for (std::size_t i = 0; i < N; ++i) names[i] = rows[i].name;
  return NameTable<N>(names);
}

}  // namespace locksley::proto
