#include "config/lanes.h"

#include <algorithm>

namespace locksley::config {

bool is_only_remote(const Handler& handler) {
  return handler.remote == Remote::kYes && handler.command.empty() && handler.worker.empty() &&
         handler.plugin.empty();
}

bool runs_processes(const Handler& handler) {
  return !is_only_remote(handler) && (handler.plugin.empty() || handler.isolate == Isolate::kYes);
}

bool is_in_lane_of_processes(const Handler& handler) {
  return runs_processes(handler) || is_only_remote(handler);
}

std::string lane_of(const Handler& handler) {
  return handler.lane.empty() ? std::string(kProcessesLane) : handler.lane;
}

std::map<std::string, Handler> all_handlers(const Config& config, std::uint32_t pool_workers) {
  std::map<std::string, Handler> handlers = config.handlers;
  if (!config.exec.is_on) return handlers;
  Handler& exec = handlers[std::string(kExecHandler)];
  exec.runs_payloads = true;
  exec.command = {"{}"};  // as is shown
  exec.input = Input::kArgument;
  exec.concurrency = process_lanes(config, pool_workers).at(std::string(kProcessesLane)).slots.count;
  exec.user = config.process.user;
  exec.max_output = config.exec.max_output;
  return handlers;
}

std::map<std::string, Lane> process_lanes(const Config& config, std::uint32_t pool_workers) {
  std::map<std::string, Lane> lanes = config.lanes;
  if (lanes.contains(std::string(kProcessesLane))) return lanes;
  if (config.exec.is_on) lanes[std::string(kProcessesLane)].slots.count = std::max(pool_workers, 1U);
  for (const auto& [name, handler] : config.handlers) {
    if (!is_in_lane_of_processes(handler) || lane_of(handler) != kProcessesLane) continue;
    Slots& slots = lanes[std::string(kProcessesLane)].slots;
    if (runs_processes(handler)) slots.count = std::max({slots.count, handler.concurrency, pool_workers});
  }
  return lanes;
}

std::vector<std::string> lane_warnings(const Config& config) {
  std::vector<std::string> warnings;
  for (const auto& [name, handler] : config.handlers) {
    const auto lane = config.lanes.find(lane_of(handler));
    if (!runs_processes(handler) || lane == config.lanes.end()) continue;
    const std::uint32_t slots = lane->second.slots.count;
    if (handler.concurrency <= slots) continue;
    warnings.push_back("handlers." + name + ".concurrency: " + std::to_string(handler.concurrency) +
                       " is more than the slots of its lane " + lane->first + " (" + std::to_string(slots) +
                       "), so at most that many of its jobs run at once");
  }
  return warnings;
}

}  // namespace locksley::config
