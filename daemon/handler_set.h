// Every handler that there is: built in, plugins, commands, workers; and the lanes that run their jobs.
#pragma once

#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/handler.h"
#include "core/lane.h"
#include "daemon/handlers/plugin.h"
#include "daemon/process/handler_lanes.h"
#include "daemon/process/keeper.h"
#include "daemon/server/handler_directory.h"

namespace locksley::daemon {

// The way from the handlers of one configuration to those of another, made ready so that nothing of it can
// fail any more.
struct HandlerChanges {
  struct Change {
    std::optional<config::Handler> settings;  // none: it is there no more
    std::optional<ProcessHandler> process;    // that runs its jobs from now on
    std::unique_ptr<PluginHandler> plugin;    // likewise; neither: as before
  };
  std::map<std::string, Change> changes;  // by name; those that stay as they are are not in it
};

// One sentence each.
using HandlerProblems = std::vector<std::string>;

// All of it but for the plugins that run in this process. `looks_for_programs`: one that cannot be found is a
// problem, too; else it will be an error of each job. Any thread, which must not end meanwhile; takes as long
// as isolated plugins take to start.
std::expected<HandlerChanges, HandlerProblems> prepare_handlers(
    const std::map<std::string, config::Handler>& before, const std::map<std::string, config::Handler>& after,
    bool looks_for_programs);

// Owned by main(); outlives server and batches. The I/O thread, or the one that starts it.
class HandlerSet {
 public:
  // `cpu`: the pool's lane, which outlives this; `ring`: what the rings of all lanes have in common. The
  // errors are sentences that name the key and say what to do.
  static std::expected<std::unique_ptr<HandlerSet>, HandlerProblems> make(
      const config::Config& config, Lane& cpu, const FairRing::Options& ring,
      std::shared_ptr<spdlog::logger> log);

  HandlerDirectory& directory() { return directory_; }
  std::vector<const Handler*> handlers() const;
  // The pool's first.
  const std::vector<Lane*>& lanes() const { return lanes_; }
  HandlerLanes& processes() { return processes_; }
  // As whom programs run, of the handlers that there were at the start.
  const std::set<KeeperUser>& program_users() const { return program_users_; }
  // Of lanes to come.
  void set_quantum(Nanoseconds quantum) { ring_.quantum = quantum; }

  // Loads the plugins among `changes` that run in this process, and looks whether all names are free. None of
  // it is in force then. Waits for their init.
  std::expected<void, HandlerProblems> load(const std::map<std::string, config::Handler>& before,
                                            HandlerChanges& changes);
  // Whether the change may be made only while nothing of the handler runs: code that runs in this process
  // goes, or the batches change their lane.
  bool needs_standstill(const std::string& name, const HandlerChanges::Change& change) const;
  // The change is in force. Where it needs a standstill, there is one; the batches are still where they were.
  void make(const std::string& name, HandlerChanges::Change change);

 private:
  HandlerSet(Lane& cpu, const FairRing::Options& ring, std::shared_ptr<spdlog::logger> log)
      : ring_(ring), processes_(std::move(log)), lanes_{&cpu} {}
  Lane& cpu() const { return *lanes_.front(); }
  ProcessLane& process_lane(const std::string& name);

  FairRing::Options ring_;
  std::vector<std::unique_ptr<Handler>> builtins_;
  std::map<std::string, std::unique_ptr<PluginHandler>> plugins_;  // that run in this process
  HandlerDirectory directory_;
  HandlerLanes processes_;
  std::vector<Lane*> lanes_;
  std::set<KeeperUser> program_users_;
};

}  // namespace locksley::daemon
