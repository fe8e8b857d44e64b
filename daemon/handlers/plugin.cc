#include "daemon/handlers/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/tasks/context.h"
#include "daemon/handlers/plugin_host.h"

namespace locksley::daemon {

PluginHandler::PluginHandler(const std::string& name, PluginFile file)
    : file_(std::move(file)),
      handler_(
          name, std::string(file_.description()),
          [&plugin = file_.plugin(), state = file_.state()](JobContext& context, std::string_view payload) {
            run_plugin_job(plugin, state, context, payload);
          }) {}

std::expected<PluginHandlers, std::vector<std::string>> load_plugins(
    const std::map<std::string, config::Handler>& handlers,
    const std::vector<std::unique_ptr<Handler>>& builtins) {
  PluginHandlers loaded;
  std::vector<std::string> problems;
  for (const auto& [name, settings] : handlers) {
    if (settings.plugin.empty() || settings.isolate == config::Isolate::kYes) continue;
    if (std::ranges::any_of(builtins, [&](const auto& builtin) { return builtin->name() == name; })) {
      problems.push_back(
          fmt::format("handlers.{}: {}: a handler of this name is built in; give the plugin's another", name,
                      settings.plugin));
      continue;
    }
    auto file = PluginFile::open(settings.plugin, name);
    if (!file) {
      problems.push_back(fmt::format("handlers.{}.plugin: {}", name, file.error()));
      continue;
    }
    loaded.push_back(std::make_unique<PluginHandler>(name, std::move(*file)));
  }
  if (!problems.empty()) return std::unexpected(std::move(problems));
  return loaded;
}

}  // namespace locksley::daemon
