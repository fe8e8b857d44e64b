// Every handler that there is: built in, plugins, commands, workers; and the lanes that run their jobs.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/handler.h"
#include "core/lane.h"
#include "daemon/handlers/plugin.h"
#include "daemon/process/handler_lanes.h"
#include "daemon/server/handler_directory.h"

namespace locksley::daemon {

// Owned by main(); outlives server and batches. Filled by make(), constant afterwards.
class HandlerSet {
 public:
  // `cpu`: the pool's lane, which outlives this; `ring`: what the rings of all lanes have in common. The
  // errors are sentences that name the key and say what to do.
  static std::expected<std::unique_ptr<HandlerSet>, std::vector<std::string>> make(
      const config::Config& config, Lane& cpu, const FairRing::Options& ring,
      std::shared_ptr<spdlog::logger> log);

  const HandlerDirectory& directory() const { return directory_; }
  std::vector<const Handler*> handlers() const;
  // The pool's first.
  const std::vector<Lane*>& lanes() const { return lanes_; }
  HandlerLanes& processes() { return *processes_; }

 private:
  HandlerSet() = default;
  void add_process_lane(const HandlerLanes::Entry& entry);

  std::vector<std::unique_ptr<Handler>> builtins_;
  PluginHandlers plugins_;
  std::unique_ptr<HandlerLanes> processes_;
  HandlerDirectory directory_;
  std::vector<Lane*> lanes_;
};

}  // namespace locksley::daemon
