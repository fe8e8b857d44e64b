// Tables for people, and text that a terminal may show. A Table is used by one thread; nothing
// blocks or fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace locksley::cli {

// A table for people: each column as wide as its widest entry, two spaces between columns.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // `cells`: one for each column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Title line and rows, each with its newline; no spaces at the end of a line. Bytes that are not
  // printable UTF-8 are shown as '?': a batch's name may come from a stranger, and must not control
  // the terminal.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` made harmless for a terminal: control characters, characters that change the direction of
// writing and invalid UTF-8 become '?'.
std::string printable(const std::string& text);
// The printable text in at most `longest` bytes: a longer text is cut and ends with "...".
std::string shortened(std::string text, std::size_t longest);

}  // namespace locksley::cli
