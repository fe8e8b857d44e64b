#include "daemon/cli/text/table.h"

#include <algorithm>

#include "daemon/cli/text/screen_text.h"
#include "daemon/cli/text/utf8.h"

namespace locksley::cli {

std::string printable(const std::string& text) {
  std::string out;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t length = utf8_sequence(rest);
    if (length == 0 || is_control(code_point(rest.substr(0, length)))) {
      out.push_back('?');
    } else {
      out.append(rest.substr(0, length));
    }
    rest.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string shortened(std::string text, std::size_t longest) {
  constexpr std::string_view kDots = "...";
  if (text.size() <= longest) return text;
  text.resize(longest - kDots.size());
  // Removes the first bytes of a character that was cut.
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.pop_back();
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0U) text.pop_back();
  return text.append(kDots);
}

std::string Table::text() const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns_) lines[0].push_back(column.title);
  for (const auto& row : rows_) {
    auto& line = lines.emplace_back();
    for (const std::string& cell : row) line.push_back(printable(cell));
  }
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], cell_count(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string fill(widths[i] - cell_count(line[i]), ' ');
      row += i == 0 ? "" : "  ";
      row += columns_[i].align == Align::kRight ? fill + line[i] : line[i] + fill;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  return out;
}

}  // namespace locksley::cli
