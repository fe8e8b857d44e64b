// Whether this daemon may still write. Internal to daemon/store/postgres.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Says once that another daemon has taken over, whichever thread is told so first. Any thread.
class Fence {
 public:
  // `on_fenced`: as PostgresOptions says. `place`: of the store, for the log.
  Fence(std::function<void()> on_fenced, std::string place, std::shared_ptr<spdlog::logger> log)
      : on_fenced_(std::move(on_fenced)), place_(std::move(place)), log_(std::move(log)) {}

  // A thread that reads false, and writes, is told by the database.
  bool is_fenced() const { return is_fenced_; }
  void be_fenced();

 private:
  const std::function<void()> on_fenced_;
  const std::string place_;
  const std::shared_ptr<spdlog::logger> log_;
  std::atomic<bool> is_fenced_{false};
};

}  // namespace locksley::daemon
