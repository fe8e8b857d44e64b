#pragma once

#include <expected>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace locksley::daemon {

// What CONFIG asks of whoever puts configurations in force. Each calls `done` once, on the I/O thread: from
// within, or later. Where there is nobody, all is refused.
struct ConfigChanges {
  // The error: sentences about what is wrong; then nothing has changed.
  using Result = std::expected<void, std::vector<std::string>>;
  using Done = std::function<void(const Result&)>;
  using Values = std::vector<std::pair<std::string, std::string>>;  // dotted key, value as in the file

  static void refuse(const Done& done) {
    done(std::unexpected(std::vector<std::string>{"this daemon's configuration stays as it is"}));
  }

  std::function<void(Done)> reload = refuse;
  std::function<void(Values, Done)> set = [](const Values&, const Done& done) { refuse(done); };
};

}  // namespace locksley::daemon
