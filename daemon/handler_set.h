// All handlers (built in, plugins, commands, workers) and the lanes that run their jobs.
#pragma once

#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/handlers/plugin.h"
#include "daemon/process/handler_lanes.h"
#include "daemon/process/keeper/keeper.h"
#include "daemon/server/batches/handlers/handler_directory.h"

namespace locksley::daemon {

// The differences between the handlers of two configurations, prepared so that putting them in
// force cannot fail.
struct HandlerChanges {
  struct Change {
    std::optional<config::Handler> settings;  // none: the handler is removed
    // What runs its jobs from now on. Both are empty: the plugin that is loaded, or only remote
    // workers.
    std::optional<ProcessHandler> process;
    std::unique_ptr<PluginHandler> plugin;
  };
  std::map<std::string, Change> changes;  // by name; unchanged handlers are not in it
};

// One sentence each.
using HandlerProblems = std::vector<std::string>;

// Prepares the changes, but for plugins that run in this process (HandlerSet::load()). A program
// that is not there is a problem, at the start as at a reload. `users` as in Program::make(). Any
// thread, which must not end meanwhile. Blocks for as long as isolated plugins take to start.
std::expected<HandlerChanges, HandlerProblems> prepare_handlers(
    const std::map<std::string, config::Handler>& before, const std::map<std::string, config::Handler>& after,
    const KeeperUsers& users);

// What a start would object to: names that built-in handlers have; programs and plugins that are
// not there. Runs no code of theirs, so it does not see what loading a plugin would show. Any
// thread; reads the file system.
HandlerProblems find_problems(const std::map<std::string, config::Handler>& handlers);
// Warnings about settings that are allowed, but are probably mistakes, one sentence each: names in
// `upstream` and `users` that no handler has; limits for results of remote workers that are larger
// than the daemon reads from them. Any thread.
std::vector<std::string> warnings_about_handlers(const config::Config& config);
// The same, and all others: those of config::lane_warnings(), of too many reserved workers, of
// users without a login by HTTP, and, if root asks, that a start as root would refuse the file.
// Any thread; reads the file system.
std::vector<std::string> warnings_before_start(const config::Config& config);

// All handlers, and their lanes.
//
// Owned by SchedulerParts (parts.h), or by work_program.cc; outlives server and batches. The I/O
// thread, or main's before that runs. Only load() blocks, while plugins initialise. Only load() and
// the static make() fail.
class HandlerSet {
 public:
  // `cpu`: the pool's lane, which outlives this; `ring`: options of all lanes' rings. Each error is
  // a sentence that names the key and says what to do.
  static std::expected<std::unique_ptr<HandlerSet>, HandlerProblems> make(const config::Config& config,
                                                                          Lane& cpu,
                                                                          const FairRing::Options& ring,
                                                                          std::shared_ptr<spdlog::logger> log)
      LOCKSLEY_REQUIRES(kIoThread);

  HandlerDirectory& directory() { return directory_; }
  // The configured ones, and those that were removed and have batches in a lane of processes.
  std::vector<const Handler*> handlers() const LOCKSLEY_REQUIRES(kIoThread);
  // The pool's first.
  const std::vector<Lane*>& lanes() const { return lanes_; }
  HandlerLanes& processes() { return processes_; }
  // The users as whom programs run, of the handlers at the start.
  const KeeperUsers& program_users() const { return program_users_; }
  // All lanes that the configuration has, and their slots. Makes those that are new. Before the
  // handlers' changes.
  void set_lanes(const config::Config& config, std::uint32_t pool_workers) LOCKSLEY_REQUIRES(kIoThread);
  // For lanes that are made later.
  void set_quantum(Nanoseconds quantum) { ring_.quantum = quantum; }

  // Loads the plugins among `changes` that run in this process, and checks that all names are free.
  // Puts nothing in force. Blocks while the plugins initialise.
  std::expected<void, HandlerProblems> load(const std::map<std::string, config::Handler>& before,
                                            HandlerChanges& changes) LOCKSLEY_REQUIRES(kIoThread);
  // Whether the change may be made only while no job of the handler runs: because code in this
  // process is removed, or because the batches change their lane.
  bool needs_standstill(const std::string& name, const HandlerChanges::Change& change) const
      LOCKSLEY_REQUIRES(kIoThread);
  // Puts the change in force. Needs: a standstill, if needs_standstill(). Leaves the batches in
  // their lane.
  void make(const std::string& name, HandlerChanges::Change change) LOCKSLEY_REQUIRES(kIoThread);

 private:
  HandlerSet(Lane& cpu, const FairRing::Options& ring, std::shared_ptr<spdlog::logger> log)
      : ring_(ring), processes_(std::move(log)), lanes_{&cpu} {}
  Lane& cpu() const { return *lanes_.front(); }
  // A problem for each lane that has no room for the handlers that it gets.
  HandlerProblems lanes_without_room(const HandlerChanges& changes) const LOCKSLEY_REQUIRES(kIoThread);
  // The lane of processes in which the handler is now; null: none.
  ProcessLane* process_lane_of(const std::string& name) const LOCKSLEY_REQUIRES(kIoThread);
  // No job of it is started there any more.
  void stop_programs(const std::string& name) LOCKSLEY_REQUIRES(kIoThread);
  // The three kinds of make().
  void remove(const std::string& name) LOCKSLEY_REQUIRES(kIoThread);
  void make_in_pool(const std::string& name, const config::Handler& settings,
                    std::unique_ptr<PluginHandler> plugin) LOCKSLEY_REQUIRES(kIoThread);
  void make_in_lane(const std::string& name, const config::Handler& settings,
                    std::optional<ProcessHandler> process) LOCKSLEY_REQUIRES(kIoThread);
  bool is_built_in(const std::string& name) const;
  // The gate of a plugin's jobs in the pool's lane: one of its own once it was remote.
  GateId gate_in_pool(const std::string& name, bool is_remote) LOCKSLEY_REQUIRES(kIoThread);

  FairRing::Options ring_;
  std::vector<std::unique_ptr<Handler>> builtins_;
  std::map<std::string, std::unique_ptr<PluginHandler>> plugins_;  // that run in this process
  std::map<std::string, GateId> pool_gates_;
  bool is_started_ = false;  // make() has returned
  HandlerDirectory directory_;
  HandlerLanes processes_;
  std::vector<Lane*> lanes_;
  KeeperUsers program_users_;
};

}  // namespace locksley::daemon
