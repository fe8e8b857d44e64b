#include "proto/text.h"

namespace locksley::proto {

std::string in_capitals(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - ('a' - 'A'));
  }
  return result;
}

std::string printable(std::string_view text, std::size_t max) {
  std::string result(text.substr(0, max));
  for (char& c : result) {
    if (c == '\r' || c == '\n') {
      c = ' ';
    } else if (c < 32 || c == 127) {  // bytes above ASCII are negative here, so they become '?' as well
      c = '?';
    }
  }
  return result;
}

}  // namespace locksley::proto
