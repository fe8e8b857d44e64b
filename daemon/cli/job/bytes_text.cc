#include "daemon/cli/job/bytes_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/table.h"
#include "daemon/cli/text/utf8.h"

namespace locksley::cli {
namespace {

constexpr std::size_t kLineBytes = 16;
constexpr std::size_t kLongestRest = 3;  // of a character in UTF-8, without its first byte

// Whether the bytes are text: whole characters of UTF-8, and no control characters but newline,
// carriage return and tab.
bool is_text(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = utf8_sequence(bytes.substr(at));
    // The bytes may have been cut inside a character, which is of 4 bytes at most.
    if (length == 0) return at > 0 && bytes.size() - at < 4 && static_cast<unsigned char>(bytes[at]) >= 0xC2;
    const char c = bytes[at];
    if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) && c != '\n' && c != '\r' &&
        c != '\t')
      return false;
    at += length;
  }
  return true;
}

std::string lines_of(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    std::ranges::replace(line, '\t', ' ');
    if (line.ends_with('\r')) line.pop_back();
    out += "  " + printable(line) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// `offset`: the place of the first byte in the whole.
std::string hexadecimal(std::string_view bytes, std::size_t offset) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += kLineBytes) {
    const std::string_view line = bytes.substr(at, kLineBytes);
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "  %06zx ", offset + at);
    out += text.data();
    for (std::size_t i = 0; i < kLineBytes; ++i) {
      if (i < line.size()) {
        std::snprintf(text.data(), text.size(), " %02x", static_cast<unsigned char>(line[i]));
        out += text.data();
      } else {
        out += "   ";
      }
    }
    out += "  ";
    for (const char c : line) out.push_back(c >= 0x20 && c < 0x7F ? c : '.');
    out += "\n";
  }
  return out;
}

std::string left_out(std::size_t bytes, std::string_view which) {
  if (bytes == 0) return {};
  return "  (" + with_commas(bytes) + " " + std::string(which) + (bytes == 1 ? " byte)\n" : " bytes)\n");
}

}  // namespace

std::string bytes_text(std::string_view bytes, std::size_t most, Shown shown) {
  if (shown == Shown::kBeginning || bytes.size() <= most) {
    const std::string_view part = bytes.substr(0, most);
    const std::string out = is_text(part) ? lines_of(part) : hexadecimal(part, 0);
    return out + left_out(bytes.size() - part.size(), "more");
  }
  const std::string_view last = bytes.substr(bytes.size() - most);
  // If text was cut inside a character, the part that is shown begins with the next character.
  std::size_t rest = 0;
  while (rest < std::min(most, kLongestRest) && (static_cast<unsigned char>(last[rest]) & 0xC0) == 0x80) {
    ++rest;
  }
  const bool as_text = is_text(last.substr(rest));
  const std::string_view part = as_text ? last.substr(rest) : last;
  const std::size_t offset = bytes.size() - part.size();
  return left_out(offset, "earlier") + (as_text ? lines_of(part) : hexadecimal(part, offset));
}

}  // namespace locksley::cli
