#include "daemon/process/handler_lanes.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "daemon/process/isolated_plugin.h"
#include "daemon/process/runners/command_runner.h"
#include "daemon/process/runners/worker_runner.h"

namespace locksley::daemon {
namespace {

// The command as a person would type it, for the reply to HANDLERS.
std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : " ") + word;
  return result;
}

std::unique_ptr<ProcessRunner> make_runner(ProcessLane& lane, LaneSlot& slot, Program::Kind kind) {
  if (kind == Program::Kind::kCommand) return std::make_unique<CommandRunner>(lane, slot);
  return std::make_unique<WorkerRunner>(lane, slot);
}

}  // namespace

std::expected<ProcessHandler, std::string> prepare_process_handler(const std::string& name,
                                                                   const config::Handler& settings,
                                                                   const KeeperUsers& users) {
  if (!settings.plugin.empty()) {
    auto plugin = prepare_isolated_plugin(name, settings, users);
    if (!plugin) return std::unexpected(std::move(plugin.error()));
    return ProcessHandler{HandlerKind::kPlugin, std::move(plugin->description),
                          std::make_shared<const Program>(std::move(plugin->program))};
  }
  auto program = Program::make(name, settings, users);
  if (!program) return std::unexpected(std::move(program.error()));
  if (settings.runs_payloads)
    return ProcessHandler{HandlerKind::kExec, "runs the command that is the payload (locksley(1), `exec`)",
                          std::make_shared<const Program>(std::move(*program))};
  return ProcessHandler{settings.command.empty() ? HandlerKind::kWorker : HandlerKind::kCommand,
                        joined(program->request().arguments),
                        std::make_shared<const Program>(std::move(*program))};
}

ProcessLane* HandlerLanes::find(const std::string& name) const {
  const auto found = lanes_.find(name);
  return found == lanes_.end() ? nullptr : found->second.get();
}

ProcessLane& HandlerLanes::add(const std::string& name, const FairRing::Options& ring) {
  std::unique_ptr<ProcessLane>& lane = lanes_[name];
  lane = std::make_unique<ProcessLane>(loop_, name, ring, make_runner);
  if (is_started_) loop_.start();
  return *lane;
}

std::expected<void, std::string> HandlerLanes::keep_root_for_others(KeeperUser own, KeeperUsers users) {
  if (std::ranges::all_of(users, [own](const KeeperUser& one) { return one.user == own.user; })) return {};
  users.insert(own);
  keeper_users_ = std::move(users);
  return loop_.keeper().start_as_root({keeper_users_.begin(), keeper_users_.end()});
}

void HandlerLanes::start() {
  is_started_ = true;
  if (!lanes_.empty()) loop_.start();
}

}  // namespace locksley::daemon
