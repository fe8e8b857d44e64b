// The lines of a screen of `locksley top`, in pieces with styles. Any thread builds its own;
// nothing blocks or fails.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/text/screen_text.h"
#include "daemon/cli/top/snapshot.h"

namespace locksley::cli {

// The role of a piece of text; a terminal with colours shows it by a colour.
enum class TopStyle { kPlain, kDim, kStrong, kHead, kGood, kWarn, kBad, kSelected };

struct TopSpan {
  std::string text;  // harmless
  TopStyle style = TopStyle::kPlain;
};
using TopLine = std::vector<TopSpan>;

struct TopSize {
  std::size_t rows = 24, columns = 80;
};

// A screen: at most as many lines as it has rows, none of more cells than it has columns.
struct TopFrame {
  std::vector<TopLine> lines;
  std::vector<TopBatchName> shown;    // the batches on it
  std::optional<std::size_t> cursor;  // the column where the user types, in the last line
  std::string text() const;           // without styles; no spaces at the end of a line
};

// One line in the making. Text is made harmless; what does not fit is cut off.
class FrameLine {
 public:
  FrameLine(std::size_t columns, Charset charset) : room_(columns), charset_(charset) {}

  FrameLine& text(std::string_view text, TopStyle style = TopStyle::kPlain);
  // The text in `cells` cells, after a space unless it is the first on the line.
  FrameLine& cell(std::string_view text, std::size_t cells, Side align = Side::kLeft,
                  TopStyle style = TopStyle::kPlain);
  // Spaces up to a column.
  FrameLine& skip_to(std::size_t column);
  // Gives the whole line this style, the empty part at its end included.
  FrameLine& paint(TopStyle style);

  std::size_t column() const { return column_; }
  std::size_t room() const { return room_; }
  Charset charset() const { return charset_; }
  TopLine take() && { return std::move(spans_); }

 private:
  std::size_t room_;
  std::size_t column_ = 0;
  Charset charset_;
  TopLine spans_;
};

}  // namespace locksley::cli
