// The thread that starts processes, gives them jobs and ends them.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/process/io/process_io.h"
#include "daemon/process/keeper/keeper_link.h"

namespace locksley::daemon {

class ProcessLane;

// One thread for all lanes of processes. So slots and runners need no lock, and starting a program
// (half a millisecond) delays neither connections nor the pool's workers. The thread sleeps while
// nothing happens.
//
// Owned by HandlerLanes, which creates it and its lanes, starts it, and stops it before the lanes'
// batches are destroyed. start(), stop(): the owner's thread. executor(), log(): any thread. stop()
// blocks for at most about kStopGrace. A program that cannot be started is reported to its slot
// (KeeperLink).
class ProcessLoop {
 public:
  explicit ProcessLoop(std::shared_ptr<spdlog::logger> log);
  ~ProcessLoop();
  ProcessLoop(const ProcessLoop&) = delete;
  ProcessLoop& operator=(const ProcessLoop&) = delete;

  // While `store_has_room` returns false, slots take no jobs: results that the store has not
  // written would pile up in memory. Any thread may call it, and it must not block. Before start().
  void set_store(std::function<bool()> store_has_room) { store_has_room_ = std::move(store_has_room); }
  bool store_has_room() const { return store_has_room_(); }
  // Starts the thread, if it does not run. The thread first runs the functions that have been
  // posted before.
  void start();
  // Starts no more jobs, and asks all processes to end. Does not block; stop() follows.
  void begin_stop();
  // As begin_stop(); then ends the thread when all processes have ended, or after kStopGrace.
  // Remaining processes are killed with the keeper. Jobs that ran return to their rings.
  void stop();
  static constexpr auto kStopGrace = std::chrono::seconds(2);

  ProcessExecutor executor() { return io_.get_executor(); }
  KeeperLink& keeper() { return keeper_; }
  const std::shared_ptr<spdlog::logger>& log() const { return log_; }
  // The lane must outlive the thread.
  void add(ProcessLane& lane) LOCKSLEY_REQUIRES(kProcessThread) { lanes_.push_back(&lane); }

 private:
  // Checks every 2 ms whether all lanes have stopped, and stops the loop when they have, or at the
  // deadline.
  void stop_when_idle(std::shared_ptr<ProcessTimer> timer, Instant deadline)
      LOCKSLEY_REQUIRES(kProcessThread);

  asio::io_context io_{1};
  asio::executor_work_guard<ProcessExecutor> work_;
  const std::shared_ptr<spdlog::logger> log_;
  KeeperLink keeper_;
  std::vector<ProcessLane*> lanes_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::function<bool()> store_has_room_ = [] { return true; };  // constant once the thread runs
  std::thread thread_;
};

}  // namespace locksley::daemon
