// The thread that starts, feeds and ends processes.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/process/keeper_link.h"
#include "daemon/process/process_io.h"

namespace locksley::daemon {

class ProcessLane;

// One thread for all lanes of processes, so that nothing in this folder needs a lock, and so that starting a
// program (half a millisecond) holds up neither connections nor workers. It sleeps while nothing happens.
//
// Owned by HandlerLanes, which builds it and its lanes, starts it, and stops it before the lanes' batches go.
class ProcessLoop {
 public:
  explicit ProcessLoop(std::shared_ptr<spdlog::logger> log);
  ~ProcessLoop();
  ProcessLoop(const ProcessLoop&) = delete;
  ProcessLoop& operator=(const ProcessLoop&) = delete;

  // Does nothing if it runs. What was posted before it did is done then.
  void start();
  // Asks all processes to end, lets go of those that have not after kStopGrace (they are killed with the
  // keeper), and ends the thread. Jobs that ran go back to their rings.
  void stop();
  static constexpr auto kStopGrace = std::chrono::seconds(2);

  // ---- The loop's thread, and whoever posts to it ----

  ProcessExecutor executor() { return io_.get_executor(); }
  KeeperLink& keeper() { return keeper_; }
  const std::shared_ptr<spdlog::logger>& log() const { return log_; }
  // The lane outlives the loop's thread.
  void add(ProcessLane& lane) { lanes_.push_back(&lane); }

 private:
  asio::io_context io_{1};
  asio::executor_work_guard<ProcessExecutor> work_;
  const std::shared_ptr<spdlog::logger> log_;
  KeeperLink keeper_;
  std::vector<ProcessLane*> lanes_;
  std::thread thread_;
};

}  // namespace locksley::daemon
