// Handlers that are plugins: `handlers: {pricing: {plugin: ./libpricing.so}}`.
#pragma once

#include <expected>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/batch/handler.h"
#include "daemon/base/plugin/plugin_file.h"

namespace locksley::daemon {

// A handler whose jobs a plugin runs on the pool. Owned by HandlerSet, and lives like any handler:
// from before the first batch that uses it until after the last. Constant: any thread. The plugin's
// jobs may block their worker; their failures end these jobs.
class PluginHandler {
 public:
  PluginHandler(const std::string& name, PluginFile file);
  PluginHandler(const PluginHandler&) = delete;
  PluginHandler& operator=(const PluginHandler&) = delete;

  Handler& handler() { return handler_; }
  const PluginFile& file() const { return file_; }

 private:
  const PluginFile file_;
  Handler handler_;  // its function refers to file_
};

using PluginHandlers = std::vector<std::unique_ptr<PluginHandler>>;

// Loads the plugins of the configuration, except those with `isolate`, in the order of their
// handlers' names. The caller owns them. If a plugin cannot be loaded, or its handler has the name
// of a built-in one, no handler is returned; the error has one sentence for each such plugin, which
// names the configuration's key, the file and what to do.
std::expected<PluginHandlers, std::vector<std::string>> load_plugins(
    const std::map<std::string, config::Handler>& handlers,
    const std::vector<std::unique_ptr<Handler>>& builtins);

}  // namespace locksley::daemon
