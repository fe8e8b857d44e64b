// Copies the standard error of a worker's process to the daemon's log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/batch/batch.h"
#include "daemon/base/log/rate_gate.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Copies a process's standard error to the daemon's log, line by line, each with the batch whose
// jobs the process runs. At most kMostLines a second are logged; the others are counted.
//
// Owned by a WorkerRunner; one thread at a time. Nothing blocks. Lines that are too long are cut.
class LineLog {
 public:
  static constexpr std::uint32_t kMostLines = 20;
  static constexpr std::size_t kLongestLine = 1000;  // bytes; the rest of the line is dropped

  explicit LineLog(std::shared_ptr<spdlog::logger> log) : log_(std::move(log)) {}

  // The handler whose process writes from now on.
  void set_handler(const std::string& handler) { handler_ = handler; }

  // `batch`: null if the process has no jobs.
  void add(std::string_view bytes, const Batch* batch);
  // The process has ended: also logs a last line without a line end.
  void end(const Batch* batch);

 private:
  void write(const Batch* batch);

  const std::shared_ptr<spdlog::logger> log_;
  std::string handler_;
  std::string line_;
  RateGate lines_{std::chrono::seconds(1), kMostLines};
};

}  // namespace locksley::daemon
