// Text for a grid of cells: harmless text, and the number of cells that it takes. Any thread;
// nothing blocks or fails.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locksley::cli {

enum class Charset { kUtf8, kAscii };

// `text` made harmless: control characters, characters that change the direction of writing and
// invalid UTF-8 become '?'; for kAscii all characters but ASCII do.
std::string harmless(std::string_view text, Charset charset);

// The number of cells of harmless() or printable() text: East Asian letters take two, combining
// accents none. Independent of the locale.
std::size_t cell_count(std::string_view text);

enum class Side { kLeft, kRight };
// The harmless text in exactly `cells` cells: cut, with a mark at its end, or padded with spaces.
std::string fitted(std::string_view text, std::size_t cells, Charset charset, Side align = Side::kLeft);

// A bar of `cells` cells that is filled to this fraction, to an eighth of a cell with kUtf8.
std::string bar(double fraction, std::size_t cells, Charset charset);
// A fraction in one cell: a column of this height, or with kAscii a digit for the tenths ('X':
// all).
std::string column(double fraction, Charset charset);

}  // namespace locksley::cli
