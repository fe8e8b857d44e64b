// Whether this daemon may still write. Internal to daemon/store/postgres.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Reports once that this daemon may not write any more, on the thread that learns it first. Any
// thread.
class Fence {
 public:
  // `on_fenced`: as PostgresOptions says. `place`: of the store, for the log.
  Fence(std::function<void()> on_fenced, std::string place, std::shared_ptr<spdlog::logger> log)
      : on_fenced_(std::move(on_fenced)), place_(std::move(place)), log_(std::move(log)) {}

  // If a thread reads false and then writes, the database refuses the write.
  bool is_fenced() const { return is_fenced_; }
  // Another daemon has taken over.
  void be_fenced();
  // The database has lost groups that were acknowledged: `acknowledged` is the number of the last
  // one that was, `committed` of the last one that is there. What this daemon has in memory follows
  // from groups that are gone.
  void be_set_back(std::int64_t acknowledged, std::int64_t committed);

 private:
  const std::function<void()> on_fenced_;
  const std::string place_;
  const std::shared_ptr<spdlog::logger> log_;
  std::atomic<bool> is_fenced_{false};
};

}  // namespace locksley::daemon
