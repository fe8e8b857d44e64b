#include "daemon/cli/exec/shell_words.h"

#include <algorithm>
#include <charconv>

namespace locksley::cli {

using client::client_error;
using Kind = client::ClientError::Kind;

namespace {

bool is_ordinary(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("%+,-./:=@_").find(c) != std::string_view::npos;
}

bool is_shown_as_number(char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }

std::string quoted_word(const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, is_ordinary)) return word;
  const bool has_control = std::ranges::any_of(word, is_shown_as_number);
  std::string result = has_control ? "$'" : "'";
  for (const char c : word) {
    if (has_control && is_shown_as_number(c)) {
      static constexpr std::string_view kHex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      result.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    } else if (has_control && (c == '\'' || c == '\\')) {
      result.append(1, '\\').append(1, c);
    } else if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

// Reads the words of one line, as a shell that expands nothing.
class Splitter {
 public:
  explicit Splitter(std::string_view rest) : rest_(rest) {}

  client::Expected<std::vector<std::string>> split() {
    std::vector<std::string> words;
    for (;;) {
      rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
      if (rest_.empty()) return words;
      std::string& word = words.emplace_back();
      while (!rest_.empty() && rest_.front() != ' ') {
        if (!read_piece(word)) {
          return client_error(Kind::kInput, std::string("only a shell could carry it out: ") +
                                                (problem_ != nullptr ? problem_ : ""));
        }
      }
    }
  }

 private:
  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  bool fail(const char* problem) {
    problem_ = problem;
    return false;
  }

  bool read_piece(std::string& word) {
    const char c = take();
    if (c == '\'') return read_until_quote(word);
    if (c == '"') return read_double(word);
    if (c == '$' && rest_.starts_with('\'')) {
      take();
      return read_escaped(word);
    }
    if (c == '\\') {
      if (rest_.empty()) return fail("it ends with a backslash");
      word += take();
      return true;
    }
    if (std::string_view("$`|&;<>()*?[]#~!{}\t").find(c) != std::string_view::npos)
      return fail("it has a character with a meaning to a shell, outside quotes");
    word += c;
    return true;
  }

  bool read_until_quote(std::string& word) {
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) return fail("a quote is not closed");
    word += rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }

  bool read_double(std::string& word) {
    while (!rest_.empty()) {
      const char c = take();
      if (c == '"') return true;
      if (c == '$' || c == '`') return fail("it has a variable or a command within quotes");
      if (c == '\\' && !rest_.empty() &&
          std::string_view("\"\\$`").find(rest_.front()) != std::string_view::npos) {
        word += take();
      } else {
        word += c;
      }
    }
    return fail("a quote is not closed");
  }

  // Within $'…', as quoted_word() writes it.
  bool read_escaped(std::string& word) {
    while (!rest_.empty()) {
      const char c = take();
      if (c == '\'') return true;
      if (c != '\\') {
        word += c;
        continue;
      }
      if (rest_.empty()) break;
      const char kind = take();
      if (kind != 'x') {
        const std::size_t known = std::string_view("ntr'\\").find(kind);
        if (known == std::string_view::npos) return fail("it has an escape that is not known");
        word += "\n\t\r'\\"[known];
        continue;
      }
      unsigned value = 0;
      const std::string_view digits = rest_.substr(0, 2);
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
      if (read.ptr != digits.data() + 2) return fail("it has an escape that is not known");
      word += static_cast<char>(value);
      rest_.remove_prefix(2);
    }
    return fail("a quote is not closed");
  }

  std::string_view rest_;
  const char* problem_ = nullptr;
};

}  // namespace

std::string quoted_command(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) line.append(line.empty() ? "" : " ").append(quoted_word(word));
  return line;
}

client::Expected<std::vector<std::string>> split_command(std::string_view line) {
  return Splitter(line).split();
}

}  // namespace locksley::cli
