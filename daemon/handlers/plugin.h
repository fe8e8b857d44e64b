// Handlers that are plugins: `handlers: {pricing: {plugin: ./libpricing.so}}`.
#pragma once

#include <expected>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/handler.h"
#include "daemon/handlers/plugin_file.h"

namespace locksley::daemon {

// A handler whose jobs a plugin runs, on the pool. As long-lived as any handler: from before the first batch
// that uses it until after the last.
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

// Loads the plugins that the configuration names, but for those with `isolate`, in the order of their
// handlers' names; the caller owns them. If one cannot be had, or has the name of a handler that is built in:
// a sentence for each, which names the configuration's key, the file and what to do, and none is loaded.
std::expected<PluginHandlers, std::vector<std::string>> load_plugins(
    const std::map<std::string, config::Handler>& handlers,
    const std::vector<std::unique_ptr<Handler>>& builtins);

}  // namespace locksley::daemon
