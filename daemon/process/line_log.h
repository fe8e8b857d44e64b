#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/job.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// What a process writes to its standard error, into the daemon's log: line by line, kMostLines a second at
// most, the rest counted. One thread at a time.
class LineLog {
 public:
  static constexpr std::uint32_t kMostLines = 20;
  static constexpr std::size_t kLongestLine = 1000;  // bytes; the rest is cut off

  LineLog(std::shared_ptr<spdlog::logger> log, std::string handler)
      : log_(std::move(log)), handler_(std::move(handler)) {}

  void add(std::string_view bytes);
  // The process has ended: what has no end of line is a line, too.
  void end();

 private:
  void write();

  const std::shared_ptr<spdlog::logger> log_;
  const std::string handler_;
  std::string line_;
  Nanoseconds second_{};
  std::uint32_t lines_ = 0;  // in this second
  std::uint64_t held_back_ = 0;
};

}  // namespace locksley::daemon
