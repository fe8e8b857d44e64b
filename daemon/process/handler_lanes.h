// The lanes of all handlers that other processes run, from the configuration: commands, workers, and plugins
// with `isolate`.
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
  // `ring`: what all lanes have in common. For the start, while the process has one thread: plugins are tried
  // out, which takes as long as they take to start. The errors are sentences that name the key and say what
  // to do.
  static std::expected<std::unique_ptr<HandlerLanes>, std::vector<std::string>> make(
      const std::map<std::string, config::Handler>& handlers, const FairRing::Options& ring,
      std::shared_ptr<spdlog::logger> log);

  struct Entry {
    std::string kind;  // "command", "worker" or "plugin"
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
