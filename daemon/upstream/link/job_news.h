// The content of a NOTE about one job. A value; any thread, and nothing blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace locksley::daemon {

// The news of one job of a lease for a NOTE to the upstream: what has changed since the last NOTE.
struct JobNews {
  std::optional<std::uint32_t> progress = {};
  std::optional<std::string> note = {};
  std::string log = {};  // more of its standard error
  std::optional<std::int32_t> exit_status = {};

  bool empty() const { return !progress && !note && log.empty() && !exit_status; }
  // The arguments of NOTE after the lease's name.
  std::vector<std::string> words(std::uint64_t index) const {
    std::vector<std::string> result{std::to_string(index)};
    const auto add = [&](const char* option, std::string value) {
      result.emplace_back(option);
      result.push_back(std::move(value));
    };
    if (progress) add("PROGRESS", std::to_string(*progress));
    if (note) add("TEXT", *note);
    if (!log.empty()) add("LOG", log);
    if (exit_status) add("EXIT", std::to_string(*exit_status));
    return result;
  }
};

}  // namespace locksley::daemon
