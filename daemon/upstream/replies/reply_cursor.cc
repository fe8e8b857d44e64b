#include "daemon/upstream/replies/reply_cursor.h"

#include <charconv>
#include <cstddef>

namespace locksley::daemon {

ReplyCursor::Header ReplyCursor::header() {
  const std::size_t end = rest_.find('\n');
  if (end == std::string_view::npos || end < 2) {
    fail();
    return {};
  }
  const Header found{rest_.front(), rest_.substr(1, end - 2)};
  rest_.remove_prefix(end + 1);
  return found;
}

std::int64_t ReplyCursor::number(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) fail();
  return is_bad_ ? 0 : value;
}

std::string_view ReplyCursor::any_text() {
  const Header found = header();
  if (found.type == '+' || found.type == '-') return found.line;
  if (found.type == '_') return {};
  if (found.type != '$' && found.type != '!' && found.type != '=') {
    fail();
    return {};
  }
  const std::int64_t length = number(found.line);
  if (length < 0 || is_bad_) return {};
  const auto size = static_cast<std::size_t>(length);
  if (rest_.size() < size + 2) {
    fail();
    return {};
  }
  const std::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size + 2);
  // The first three bytes name the form of the text.
  return found.type == '=' && size >= 4 ? bytes.substr(4) : bytes;
}

std::int64_t ReplyCursor::integer() {
  const Header found = header();
  if (found.type != ':') fail();
  return is_bad_ ? 0 : number(found.line);
}

std::uint64_t ReplyCursor::array() {
  const Header found = header();
  const bool is_map = found.type == '%';
  if (!is_map && found.type != '*' && found.type != '>' && found.type != '~') fail();
  const std::int64_t length = is_bad_ ? 0 : number(found.line);
  if (length <= 0) return 0;
  return static_cast<std::uint64_t>(length) * (is_map ? 2 : 1);
}

void ReplyCursor::skip() {
  for (std::uint64_t left = 1; left != 0 && !is_bad_; --left) {
    if (rest_.empty()) return fail();
    switch (rest_.front()) {
      case '*':
      case '>':
      case '~':
      case '%':
        left += array();
        break;
      case '$':
      case '!':
      case '=':
        (void)text();
        break;
      default:
        (void)header();
    }
  }
}

}  // namespace locksley::daemon
