// Untrusted bytes as lines of text or hexadecimal. Any thread; nothing blocks or fails.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locksley::cli {

enum class Shown { kBeginning, kEnd };

// The first or the last `most` bytes for people: as lines of text if all of them are text, else 16
// in a line, in hexadecimal and as ASCII. Each line begins with two spaces and ends with a newline;
// '?' stands for a character that a terminal would obey. A line of its own says how many bytes are
// left out, in the place where they are missing.
std::string bytes_text(std::string_view bytes, std::size_t most, Shown shown = Shown::kBeginning);

}  // namespace locksley::cli
