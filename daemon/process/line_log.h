#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/batch.h"
#include "daemon/rate_gate.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// What a process writes to its standard error, into the daemon's log: line by line, kMostLines a second at
// most, the rest counted, each with the batch whose jobs it has. One thread at a time.
class LineLog {
 public:
  static constexpr std::uint32_t kMostLines = 20;
  static constexpr std::size_t kLongestLine = 1000;  // bytes; the rest is cut off

  LineLog(std::shared_ptr<spdlog::logger> log, std::string handler)
      : log_(std::move(log)), handler_(std::move(handler)) {}

  // `batch`: null, if it has no jobs.
  void add(std::string_view bytes, const Batch* batch);
  // The process has ended: what has no end of line is a line, too.
  void end(const Batch* batch);

 private:
  void write(const Batch* batch);

  const std::shared_ptr<spdlog::logger> log_;
  const std::string handler_;
  std::string line_;
  RateGate lines_{std::chrono::seconds(1), kMostLines};
};

}  // namespace locksley::daemon
