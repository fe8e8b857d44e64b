#include "daemon/process/process_loop.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "daemon/process/process_lane.h"

namespace locksley::daemon {

ProcessLoop::ProcessLoop(std::shared_ptr<spdlog::logger> log)
    : work_(io_.get_executor()), log_(std::move(log)), keeper_(io_.get_executor(), log_) {}

ProcessLoop::~ProcessLoop() { stop(); }

void ProcessLoop::start() {
  if (thread_.joinable()) return;
  thread_ = std::thread([this] { io_.run(); });
}

void ProcessLoop::stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    for (ProcessLane* lane : lanes_) lane->stop();
    // Looked at now and then: it happens once in a process's life.
    auto timer = std::make_shared<ProcessTimer>(io_.get_executor());
    const auto deadline = std::chrono::steady_clock::now() + kStopGrace;
    const auto look = [this, timer, deadline](const auto& self) -> void {
      const bool all =
          std::ranges::all_of(lanes_, [](const ProcessLane* lane) { return lane->is_stopped(); });
      if (all || std::chrono::steady_clock::now() >= deadline) {
        // No slot may hold a turn beyond this. What still runs is killed with the keeper.
        for (ProcessLane* lane : lanes_) lane->abandon();
        return io_.stop();
      }
      timer->expires_after(std::chrono::milliseconds(2));
      timer->async_wait([self](const asio::error_code&) { self(self); });
    };
    look(look);
  });
  thread_.join();
}

}  // namespace locksley::daemon
