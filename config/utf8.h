#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace locksley::config {

// Byte offset of the first invalid part of a text: bytes that are not UTF-8 (overlong forms and
// surrogates included), or a control character other than tab, line feed and carriage return.
std::optional<std::size_t> find_unreadable(std::string_view text);

// True for every byte of a character except its first.
constexpr bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Number of characters (code points) in a text that is UTF-8.
std::size_t count_characters(std::string_view text);

}  // namespace locksley::config
