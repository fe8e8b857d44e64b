// The text of a failed job as the packages for Python and Node.js write it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace locksley::cli {

// The two parts of such a text, for people.
struct FailureText {
  std::string_view message;  // of the text that was read: one line
  std::string traceback;     // of the worker: lines
};

// Of a line, a TAB, and a JSON object with the strings `exception` and `traceback`. None: the text
// is another program's, or of an application with a codec of its own. Any thread; nothing blocks
// or fails.
std::optional<FailureText> failure_text(std::string_view text);

}  // namespace locksley::cli
