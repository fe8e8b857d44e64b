#pragma once

#include <expected>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace locksley::daemon {

// What CONFIG asks of whoever puts configurations in force. Each calls `done` once, on the I/O thread: from
// within, or later.
struct ConfigChanges {
  // The error: sentences about what is wrong; then nothing has changed.
  using Result = std::expected<void, std::vector<std::string>>;
  using Done = std::function<void(const Result&)>;
  using Values = std::vector<std::pair<std::string, std::string>>;  // dotted key, value as in the file

  std::function<void(Done)> reload;
  std::function<void(Values, Done)> set;
};

}  // namespace locksley::daemon
