// The text of a failed job as the packages for Python and Node.js write it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace locksley::cli {

// The two parts of such a text, for people.
struct FailureText {
  std::string_view message;  // a view into the text that was read: one line
  std::string traceback;     // of the worker: lines
};

// The two parts of a text that is a line, a TAB, and a JSON object with the strings `exception` and
// `traceback`. None: the text is that of another program, or of an application with a codec of its
// own. Any thread; nothing blocks or fails.
std::optional<FailureText> failure_text(std::string_view text);

}  // namespace locksley::cli
