// The warnings of the log that a peer can cause.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "daemon/base/log/log_line.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/io_thread.h"

namespace locksley::daemon {

// The warnings of the log that a peer can cause at will.
enum class Warning : std::uint8_t {
  kCrossProtocol,
  kSlowClient,
  kInputMemory,
  kMaxClients,
  kDenied,
  kWrongPassword,
  kHandshake,
  kWrongPort,
  kClientMemory,
};
inline constexpr std::size_t kWarnings = 9;

// Log lines about peers, one a minute of each kind, so that no peer can flood the log. Each line
// says in `unlogged` how many of its kind were left out.
//
// Owned by ServerState. The I/O thread only. Nothing blocks or fails.
class Warnings {
 public:
  explicit Warnings(std::shared_ptr<spdlog::logger> log);
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  // Writes the line, with the peer's address, unless a line of this kind was written in the last
  // minute.
  void warn(Warning kind, std::string_view peer, LogLine what) LOCKSLEY_REQUIRES(kIoThread);

 private:
  const std::shared_ptr<spdlog::logger> log_;
  std::array<RateGate, kWarnings> gates_ LOCKSLEY_GUARDED_BY(kIoThread);  // by Warning
};

}  // namespace locksley::daemon
