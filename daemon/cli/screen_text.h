// Text for a grid of cells: what a terminal may be shown, and how many cells that takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locksley::cli {

enum class Charset { kUtf8, kAscii };

// `text` as it may be shown: what a terminal would obey (control characters, what turns the direction of
// writing) and what is no UTF-8 becomes '?'; for kAscii all but ASCII does.
std::string harmless(std::string_view text, Charset charset);

// Of harmless text: the cells that it takes; East Asian letters take two, accents of their own none. Whatever
// the program's locale.
std::size_t cell_count(std::string_view text);

enum class Side { kLeft, kRight };
// The text made harmless, in exactly so many cells: cut, with a mark at its end, or filled with spaces.
std::string fitted(std::string_view text, std::size_t cells, Charset charset, Side align = Side::kLeft);

// A fraction of so many cells, to an eighth of a cell where the charset has it.
std::string bar(double fraction, std::size_t cells, Charset charset);
// A fraction in one cell: a column as high, or a digit for tenths ('X': all).
std::string column(double fraction, Charset charset);

}  // namespace locksley::cli
