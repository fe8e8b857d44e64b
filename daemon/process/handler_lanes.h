// The lanes of all handlers that other processes run: commands, workers, and plugins with `isolate`.
#pragma once

#include <sys/types.h>

#include <expected>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "config/config.h"
#include "core/fair_ring.h"
#include "daemon/process/keeper.h"
#include "daemon/process/process_lane.h"
#include "daemon/process/process_loop.h"
#include "daemon/process/program.h"

namespace locksley::daemon {

// Such a handler, as the configuration describes it, made ready.
struct ProcessHandler {
  std::string kind;  // "command", "worker" or "plugin"
  std::string description;
  std::shared_ptr<const Program> program;
};

// A plugin is tried out, which takes as long as it takes to start. Any thread. The error is a sentence that
// names the key and says what to do.
std::expected<ProcessHandler, std::string> prepare_process_handler(const std::string& name,
                                                                   const config::Handler& settings);

// Owned by main(). Its lanes outlive their batches, and the handlers that they are for; stop() before the
// store. The I/O thread only.
class HandlerLanes {
 public:
  explicit HandlerLanes(std::shared_ptr<spdlog::logger> log) : loop_(std::move(log)) {}

  // The lane of that name; null if there never was one.
  ProcessLane* find(const std::string& name) const;
  // Another lane, without a program.
  ProcessLane& add(const std::string& name, const FairRing::Options& ring);

  // Before the process gives up root to be `user`, and before start(): where programs run as others, which
  // `users` are, they will go on to. The error is a sentence.
  std::expected<void, std::string> keep_root_for_others(uid_t user, const std::set<KeeperUser>& users);

  // Jobs may run from now on. Without lanes there is no thread.
  void start();
  void stop() { loop_.stop(); }

 private:
  ProcessLoop loop_;
  bool is_started_ = false;
  std::map<std::string, std::unique_ptr<ProcessLane>, std::less<>> lanes_;  // after the loop: they go first
};

}  // namespace locksley::daemon
