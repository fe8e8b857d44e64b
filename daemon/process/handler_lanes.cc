#include "daemon/process/handler_lanes.h"

#include <utility>

#include "daemon/process/command_slot.h"
#include "daemon/process/worker_slot.h"

namespace locksley::daemon {
namespace {

// For HANDLERS: what a person would type.
std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : " ") + word;
  return result;
}

}  // namespace

std::expected<std::unique_ptr<HandlerLanes>, std::string> HandlerLanes::make(
    const std::map<std::string, config::Handler>& handlers, const FairRing::Options& ring,
    std::shared_ptr<spdlog::logger> log) {
  std::unique_ptr<HandlerLanes> result(new HandlerLanes(std::move(log)));
  for (const auto& [name, settings] : handlers) {
    const bool is_command = !settings.command.empty();
    if (!is_command && settings.worker.empty()) continue;
    auto program = Program::make(name, settings);
    if (!program) return std::unexpected(std::move(program.error()));
    FairRing::Options options = ring;
    options.parallelism = settings.concurrency;
    ProcessLane::MakeSlot make_slot;
    if (is_command) {
      make_slot = [](ProcessLane& lane) { return std::make_unique<CommandSlot>(lane); };
    } else {
      make_slot = [](ProcessLane& lane) { return std::make_unique<WorkerSlot>(lane); };
    }
    std::string description = joined(program->request().arguments);
    result->entries_.push_back({is_command ? "command" : "worker",
                                std::make_unique<ProcessLane>(result->loop_, name, std::move(description),
                                                              std::move(*program), options, make_slot)});
  }
  return result;
}

void HandlerLanes::start() {
  if (!entries_.empty()) loop_.start();
}

}  // namespace locksley::daemon
