#include "daemon/cli/top/frame.h"

#include <algorithm>

namespace locksley::cli {

std::string TopFrame::text() const {
  std::string out;
  for (const TopLine& line : lines) {
    std::string row;
    for (const TopSpan& span : line) row += span.text;
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  return out;
}

FrameLine& FrameLine::text(std::string_view text, TopStyle style) {
  std::string shown = harmless(text, charset_);
  std::size_t cells = cell_count(shown);
  if (cells > room_) {
    shown = fitted(shown, room_, charset_);
    cells = room_;
  }
  room_ -= cells;
  column_ += cells;
  if (!shown.empty()) spans_.push_back({std::move(shown), style});
  return *this;
}

FrameLine& FrameLine::cell(std::string_view text, std::size_t cells, Side align, TopStyle style) {
  if (column_ > 0) this->text(" ");
  return this->text(fitted(text, std::min(cells, room_), charset_, align), style);
}

FrameLine& FrameLine::skip_to(std::size_t column) {
  return column > column_ ? text(std::string(std::min(column - column_, room_), ' ')) : *this;
}

FrameLine& FrameLine::paint(TopStyle style) {
  text(std::string(room_, ' '));
  for (TopSpan& span : spans_) span.style = style;
  return *this;
}

}  // namespace locksley::cli
