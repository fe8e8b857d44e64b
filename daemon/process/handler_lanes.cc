#include "daemon/process/handler_lanes.h"

#include <utility>

#include "daemon/process/command_slot.h"
#include "daemon/process/isolated_plugin.h"
#include "daemon/process/worker_slot.h"

namespace locksley::daemon {
namespace {

// For HANDLERS: what a person would type.
std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : " ") + word;
  return result;
}

// What a lane is made of.
struct Parts {
  std::string kind;
  std::string description;
  Program program;
  ProcessLane::MakeSlot make_slot;
};

template <class Slot>
std::unique_ptr<ProcessSlot> make_slot(ProcessLane& lane) {
  return std::make_unique<Slot>(lane);
}

std::expected<Parts, std::string> make_parts(const std::string& name, const config::Handler& settings) {
  if (!settings.plugin.empty()) {
    auto plugin = prepare_isolated_plugin(name, settings);
    if (!plugin) return std::unexpected(std::move(plugin.error()));
    return Parts{"plugin", std::move(plugin->description), std::move(plugin->program), make_slot<WorkerSlot>};
  }
  auto program = Program::make(name, settings);
  if (!program) return std::unexpected(std::move(program.error()));
  std::string description = joined(program->request().arguments);
  if (settings.command.empty()) {
    return Parts{"worker", std::move(description), std::move(*program), make_slot<WorkerSlot>};
  }
  return Parts{"command", std::move(description), std::move(*program), make_slot<CommandSlot>};
}

}  // namespace

std::expected<std::unique_ptr<HandlerLanes>, std::vector<std::string>> HandlerLanes::make(
    const std::map<std::string, config::Handler>& handlers, const FairRing::Options& ring,
    std::shared_ptr<spdlog::logger> log) {
  std::unique_ptr<HandlerLanes> result(new HandlerLanes(std::move(log)));
  std::vector<std::string> problems;
  for (const auto& [name, settings] : handlers) {
    if (!settings.plugin.empty() && settings.isolate == config::Isolate::kNo) continue;
    auto parts = make_parts(name, settings);
    if (!parts) {
      problems.push_back(std::move(parts.error()));
      continue;
    }
    FairRing::Options options = ring;
    options.parallelism = settings.concurrency;
    result->entries_.push_back(
        {std::move(parts->kind),
         std::make_unique<ProcessLane>(result->loop_, name, std::move(parts->description),
                                       std::move(parts->program), options, parts->make_slot)});
  }
  if (!problems.empty()) return std::unexpected(std::move(problems));
  return result;
}

void HandlerLanes::start() {
  if (!entries_.empty()) loop_.start();
}

}  // namespace locksley::daemon
