#include "config/problem.h"

#include "config/utf8.h"

namespace locksley::config {
namespace {

constexpr std::size_t kLongestQuote = 60;  // bytes; a message should fit on a line

// A key may come from the file, so it is shown with the same care as a value.
std::string escaped(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += "\\x";
      result += kHex[byte >> 4];
      result += kHex[byte & 15];
    } else {
      result += c;
    }
  }
  return result;
}

std::string shortened(std::string_view text) {
  if (text.size() <= kLongestQuote) return escaped(text);
  std::size_t end = kLongestQuote;
  while (end > 0 && continues_character(text[end])) --end;
  return escaped(text.substr(0, end)) + "...";
}

}  // namespace

std::string to_string(const Problem& problem) {
  std::string result = problem.file;
  if (problem.line != 0) {
    result += ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column);
  }
  if (!problem.key.empty()) {
    if (!result.empty()) result += ": ";
    // A dotted key has several names, each of which may be long.
    result += problem.key.size() <= 4 * kLongestQuote ? escaped(problem.key) : shortened(problem.key);
  }
  if (!result.empty()) result += ": ";
  result += problem.message;
  if (!problem.suggestion.empty()) result += "; did you mean " + in_quotes(problem.suggestion) + "?";
  return result;
}

std::string in_quotes(std::string_view text) { return "\"" + shortened(text) + "\""; }

}  // namespace locksley::config
