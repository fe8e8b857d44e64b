#include "proto/glob.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace locksley::proto {
namespace {

// Whether one element of a pattern matches one byte, and where the next element starts.
std::pair<bool, std::size_t> match_one(std::string_view pattern, std::size_t at, char byte) {
  const char kind = pattern[at++];
  if (kind == '?') return {true, at};
  if (kind == '\\' && at < pattern.size()) return {pattern[at] == byte, at + 1};
  if (kind != '[') return {kind == byte, at};

  const bool is_negated = at < pattern.size() && pattern[at] == '^';
  if (is_negated) ++at;
  const auto code = [](char c) { return static_cast<unsigned char>(c); };
  bool is_found = false;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      is_found |= pattern[at + 1] == byte;
      at += 2;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      const unsigned char first = code(pattern[at]);
      const unsigned char last = code(pattern[at + 2]);
      is_found |= code(byte) >= std::min(first, last) && code(byte) <= std::max(first, last);
      at += 3;
    } else {
      is_found |= pattern[at] == byte;
      ++at;
    }
  }
  if (at < pattern.size()) ++at;  // the ']'; a set that is not closed ends with the pattern
  return {is_found != is_negated, at};
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t p = 0;
  std::size_t t = 0;
  // The position after the last `*`, and the end of the text that this `*` matches so far. Only the
  // last `*` is retried: an earlier one that matched more text would leave less for the elements
  // after it.
  std::size_t star = kNone;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    if (p < pattern.size()) {
      const auto [is_match, next] = match_one(pattern, p, text[t]);
      if (is_match) {
        p = next;
        ++t;
        continue;
      }
    }
    if (star == kNone) return false;
    p = star;
    t = ++star_text;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace locksley::proto
