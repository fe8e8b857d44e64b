#pragma once

#include <cstddef>
#include <string_view>

namespace locksley::cli {

// The length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none: truncated,
// overlong, a surrogate, beyond U+10FFFF, or `text` is empty.
std::size_t utf8_sequence(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace locksley::cli
