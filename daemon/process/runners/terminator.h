// Ends a process, first by SIGTERM and then by SIGKILL.
#pragma once

#include <csignal>
#include <cstdint>

#include "daemon/process/io/process_io.h"
#include "daemon/process/keeper/keeper_link.h"

namespace locksley::daemon {

// Ends a process: SIGTERM to its group, and SIGKILL if it has not ended after a grace time.
//
// A member of a runner; the keeper's link outlives it. The process thread only. Nothing blocks. A
// signal to a process that has ended has no effect.
class Terminator {
 public:
  Terminator(ProcessExecutor executor, KeeperLink& keeper) : timer_(executor), keeper_(keeper) {}

  // `grace` 0: SIGKILL at once.
  void begin(std::uint64_t process, std::chrono::nanoseconds grace) LOCKSLEY_REQUIRES(kProcessThread) {
    if (grace.count() == 0) return keeper_.signal(process, SIGKILL);
    keeper_.signal(process, SIGTERM);
    timer_.expires_after(grace);
    timer_.async_wait([this, process](const asio::error_code& error) {
      if (error) return;
      kProcessThread.assert_held();
      keeper_.signal(process, SIGKILL);
    });
  }
  // The process has ended.
  void end() { timer_.cancel(); }

 private:
  ProcessTimer timer_;
  KeeperLink& keeper_;
};

}  // namespace locksley::daemon
