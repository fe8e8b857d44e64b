// The lanes of all handlers whose jobs run in other processes: commands, workers, and plugins with
// `isolate`.
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "config/config.h"
#include "core/lane/lane.h"
#include "daemon/base/handler_kind.h"
#include "daemon/process/keeper/keeper.h"
#include "daemon/process/lane/process_lane.h"
#include "daemon/process/lane/process_loop.h"
#include "daemon/process/lane/program.h"

namespace locksley::daemon {

// A handler of the configuration whose jobs run in processes, ready for its lane.
struct ProcessHandler {
  HandlerKind kind;
  std::string description;
  std::shared_ptr<const Program> program;
};

// Prepares a handler; `users` as in Program::make(). Any thread. For a plugin, blocks until a
// process has loaded and checked it. The error is a sentence that names the configuration's key and
// says what to do.
std::expected<ProcessHandler, std::string> prepare_process_handler(const std::string& name,
                                                                   const config::Handler& settings,
                                                                   const KeeperUsers& users);

// All lanes of processes, by name, and the loop on which they run.
//
// A member of HandlerSet; call its stop() before that of the store. Lanes are never removed before
// that, so they outlive their batches and handlers. The I/O thread only. Only stop() blocks, for at
// most about ProcessLoop::kStopGrace.
class HandlerLanes {
 public:
  explicit HandlerLanes(std::shared_ptr<spdlog::logger> log) : loop_(std::move(log)) {}

  // The lane of this name; null if none was ever added.
  ProcessLane* find(const std::string& name) const;
  // Adds a lane, without slots and handlers.
  ProcessLane& add(const std::string& name, const FairRing::Options& ring);

  // Call it before this process gives up root to become `own`, and before start(). If `users` has a
  // user other than `own`, starts a keeper that stays root. The error is a sentence.
  std::expected<void, std::string> keep_root_for_others(KeeperUser own, KeeperUsers users);
  // For Program::make(): the users for whom the keeper stays root, and this process's own; empty:
  // the keeper does not stay root.
  const KeeperUsers& keeper_users() const { return keeper_users_; }

  // See ProcessLoop::set_store().
  void set_store(std::function<bool()> store_has_room) { loop_.set_store(std::move(store_has_room)); }
  // Starts the thread, if there are lanes; later lanes start it.
  void start();
  void begin_stop() { loop_.begin_stop(); }
  void stop() { loop_.stop(); }

 private:
  ProcessLoop loop_;
  bool is_started_ = false;
  KeeperUsers keeper_users_;
  // After loop_: destroyed before it.
  std::map<std::string, std::unique_ptr<ProcessLane>, std::less<>> lanes_;
};

}  // namespace locksley::daemon
