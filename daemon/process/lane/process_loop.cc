#include "daemon/process/lane/process_loop.h"

#include <asio/post.hpp>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/process/lane/process_lane.h"

namespace locksley::daemon {

ProcessLoop::ProcessLoop(std::shared_ptr<spdlog::logger> log)
    : work_(io_.get_executor()), log_(std::move(log)), keeper_(io_.get_executor(), log_) {}

ProcessLoop::~ProcessLoop() { stop(); }

void ProcessLoop::start() {
  if (thread_.joinable()) return;
  thread_ = std::thread([this] {
    const ThreadRoleScope role(kProcessThread);
    io_.run();
  });
}

void ProcessLoop::begin_stop() {
  asio::post(io_, [this] {
    kProcessThread.assert_held();
    for (ProcessLane* lane : lanes_) lane->stop();
  });
}

void ProcessLoop::stop() {
  if (!thread_.joinable()) return;
  begin_stop();
  asio::post(io_, [this] {
    kProcessThread.assert_held();
    stop_when_idle(std::make_shared<ProcessTimer>(io_.get_executor()), now() + kStopGrace);
  });
  thread_.join();
}

void ProcessLoop::stop_when_idle(std::shared_ptr<ProcessTimer> timer, Instant deadline) {
  bool is_idle = true;
  for (const ProcessLane* lane : lanes_) is_idle = is_idle && lane->is_stopped();
  if (is_idle || now() >= deadline) {
    // No slot may hold a turn after this. The processes that remain are killed with the keeper.
    for (ProcessLane* lane : lanes_) lane->abandon();
    return io_.stop();
  }
  // Polled: this happens once in the daemon's life.
  timer->expires_after(std::chrono::milliseconds(2));
  timer->async_wait([this, timer, deadline](const asio::error_code&) {
    kProcessThread.assert_held();
    stop_when_idle(timer, deadline);
  });
}

}  // namespace locksley::daemon
