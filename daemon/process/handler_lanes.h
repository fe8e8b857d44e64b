// The lanes of all handlers that are commands or workers, from the configuration.
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/fair_ring.h"
#include "daemon/process/process_lane.h"
#include "daemon/process/process_loop.h"

namespace locksley::daemon {

// Owned by main(). Its lanes outlive their batches; start() before the first of these, stop() before the
// store.
class HandlerLanes {
 public:
  // `ring`: what all lanes have in common. The error names the key and what to do.
  static std::expected<std::unique_ptr<HandlerLanes>, std::string> make(
      const std::map<std::string, config::Handler>& handlers, const FairRing::Options& ring,
      std::shared_ptr<spdlog::logger> log);

  struct Entry {
    std::string kind;  // "command" or "worker"
    std::unique_ptr<ProcessLane> lane;
  };
  const std::vector<Entry>& entries() const { return entries_; }

  // Without handlers there is nothing to start.
  void start();
  void stop() { loop_.stop(); }

 private:
  explicit HandlerLanes(std::shared_ptr<spdlog::logger> log) : loop_(std::move(log)) {}

  ProcessLoop loop_;
  std::vector<Entry> entries_;  // after the loop: they go first
};

}  // namespace locksley::daemon
