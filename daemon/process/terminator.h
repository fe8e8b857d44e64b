#pragma once

#include <csignal>
#include <cstdint>

#include "daemon/process/keeper_link.h"
#include "daemon/process/process_io.h"

namespace locksley::daemon {

// Ends a process: SIGTERM to its group, and SIGKILL if it has not ended after a while. The loop's thread.
class Terminator {
 public:
  Terminator(ProcessExecutor executor, KeeperLink& keeper) : timer_(executor), keeper_(keeper) {}

  // 0: SIGKILL at once.
  void begin(std::uint64_t process, std::chrono::nanoseconds grace) {
    if (grace.count() == 0) return keeper_.signal(process, SIGKILL);
    keeper_.signal(process, SIGTERM);
    timer_.expires_after(grace);
    timer_.async_wait([this, process](const asio::error_code& error) {
      if (!error) keeper_.signal(process, SIGKILL);
    });
  }
  // It has ended.
  void end() { timer_.cancel(); }

 private:
  ProcessTimer timer_;
  KeeperLink& keeper_;
};

}  // namespace locksley::daemon
