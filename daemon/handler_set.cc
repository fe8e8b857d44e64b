#include "daemon/handler_set.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "daemon/handlers/builtins.h"

namespace locksley::daemon {

std::expected<std::unique_ptr<HandlerSet>, std::vector<std::string>> HandlerSet::make(
    const config::Config& config, Lane& cpu, const FairRing::Options& ring,
    std::shared_ptr<spdlog::logger> log) {
  std::unique_ptr<HandlerSet> set(new HandlerSet);
  set->lanes_.push_back(&cpu);
  set->builtins_ = register_builtins();
  for (const auto& handler : set->builtins_) {
    set->directory_.add({.handler = *handler, .lane = cpu, .kind = "builtin"});
  }
  // Processes first: those that try plugins out are started while there is one thread for certain.
  auto processes = HandlerLanes::make(config.handlers, ring, std::move(log));
  auto plugins = load_plugins(config.handlers, set->builtins_);
  std::vector<std::string> problems;
  if (!processes) problems = std::move(processes.error());
  if (!plugins) problems.insert(problems.end(), plugins.error().begin(), plugins.error().end());
  if (!problems.empty()) return std::unexpected(std::move(problems));
  set->plugins_ = std::move(*plugins);
  for (const auto& plugin : set->plugins_) {
    const config::Handler& settings = config.handlers.at(plugin->handler().name());
    set->directory_.add({.handler = plugin->handler(),
                         .lane = cpu,
                         .kind = "plugin",
                         .timeout = std::chrono::ceil<std::chrono::milliseconds>(settings.timeout),
                         .retries = settings.retries});
  }
  set->processes_ = std::move(*processes);
  for (const HandlerLanes::Entry& entry : set->processes_->entries()) {
    const std::string& name = entry.lane->handler().name();
    if (set->directory_.find(name) != nullptr) {
      return std::unexpected(std::vector{
          fmt::format("handlers.{}: a handler of this name is built in; give this one another", name)});
    }
    set->add_process_lane(entry);
  }
  return set;
}

void HandlerSet::add_process_lane(const HandlerLanes::Entry& entry) {
  ProcessLane& with = *entry.lane;
  const config::Handler& settings = with.program().settings();
  directory_.add({.handler = with.handler(),
                  .lane = with.lane(),
                  .kind = entry.kind,
                  .concurrency = settings.concurrency,
                  .timeout = std::chrono::ceil<std::chrono::milliseconds>(settings.timeout),
                  .retries = settings.retries,
                  .is_at_rate = [&with] { return with.is_at_rate(); }});
  lanes_.push_back(&with.lane());
}

std::vector<const Handler*> HandlerSet::handlers() const {
  std::vector<const Handler*> result;
  for (const auto& [name, entry] : directory_.entries()) result.push_back(&entry.handler);
  return result;
}

}  // namespace locksley::daemon
