#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locksley::config {

// A position in a text, both from 1; column in characters. Line 0: no position.
struct Position {
  std::size_t line = 0;
  std::size_t column = 0;
};

// One error of a configuration, with its position and what was expected, so that its author can
// correct it.
struct Problem {
  std::string file;        // as it was named to the loader
  std::size_t line = 0;    // from 1; 0: the file as a whole
  std::size_t column = 0;  // from 1, in characters (a tab is one); 0 with line 0
  std::string key;         // dotted, such as handlers.lines.timeout; empty: no single key
  std::string message;     // "expected a duration such as 10ms, found "ten""
  std::string suggestion;  // the probably intended name or value; empty: unknown
  bool operator==(const Problem&) const = default;
};

// locksley.yaml:12:5: scheduling.quantum: expected a duration such as 10ms, found "ten"
// locksley.yaml:12:3: scheduling.quantom: unknown key; did you mean "quantum"?
std::string to_string(const Problem& problem);

// The text in double quotes for a message: control characters escaped, a long one cut short.
std::string in_quotes(std::string_view text);

}  // namespace locksley::config
