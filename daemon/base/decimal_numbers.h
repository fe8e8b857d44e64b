// A check for the integer options of both programs. Main's thread, while it parses a command line.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "proto/text.h"

namespace locksley::daemon {

// For the transform() of an option of integers: takes numbers from `least` to `most`, as the wire
// has them, in decimal digits, with a minus for those below 0, and also with leading zeros. Any
// other text is an error that names the bounds. CLI11 alone reads 010 as 8 and 0x10 as 16, as C
// does, and reads a number of more than 64 bits as a different number.
template <std::integral Number>
CLI::Validator decimal_numbers(Number least, Number most) {
  using Widest = std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t>;
  const auto read = [least = Widest{least}, most = Widest{most}](std::string& text) {
    Widest number = 0;
    const char* const end = text.data() + text.size();
    const auto [read_to, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || read_to != end || number < least || number > most)
      return "'" + proto::printable(text) + "' is not a decimal number from " + std::to_string(least) +
             " to " + std::to_string(most);
    text = std::to_string(number);
    return std::string();
  };
  return {read, CLI::detail::type_name<Number>() + std::string(" in [") + std::to_string(least) + " - " +
                    std::to_string(most) + "]"};
}

}  // namespace locksley::daemon
