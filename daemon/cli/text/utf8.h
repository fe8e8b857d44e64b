// Whether bytes are UTF-8, and whether a terminal may obey a character. Any thread; nothing blocks
// or fails.
#pragma once

#include <cstddef>
#include <string_view>

namespace locksley::cli {

// The length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none:
// truncated, overlong, a surrogate, beyond U+10FFFF, or `text` is empty.
std::size_t utf8_sequence(std::string_view text);

// The code point of one well-formed sequence.
char32_t code_point(std::string_view sequence);

// Whether a terminal, an editor or a pager may obey the character instead of showing it: control
// characters (C0, DEL and C1), marks, embeddings and isolates that change the direction of writing,
// and separators of lines.
bool is_control(char32_t point);

bool is_utf8(std::string_view text);

}  // namespace locksley::cli
