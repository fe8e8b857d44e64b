#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace locksley::cli {

// Rows for people: columns as wide as their widest cell, numbers to the right, two spaces between.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Title line and rows, each with its newline; no spaces at the end of a line. Bytes that are no printable
  // UTF-8 (a batch may be named by a stranger) are shown as '?', so that no output can command the terminal.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` without what a terminal would obey: control characters and invalid UTF-8 become '?'.
std::string printable(const std::string& text);

// Of UTF-8 text: its code points, which is the width for all but double-width scripts.
std::size_t display_width(const std::string& text);

}  // namespace locksley::cli
