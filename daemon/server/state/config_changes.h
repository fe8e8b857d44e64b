// The interface behind CONFIG SET and CONFIG RELOAD.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace locksley::daemon {

// The interface behind CONFIG SET and CONFIG RELOAD, which main() connects with its
// Reconfiguration. Each function calls `done` once, on the I/O thread: within the call, or later.
// By default both refuse.
struct ConfigChanges {
  // The error: one sentence for each problem; nothing has changed then.
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
