// The file of a plugin: opened, checked, started. Knows neither pool nor configuration, so that whatever runs
// plugins can use it.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "core/plugin.h"

namespace locksley::daemon {

// A plugin that is ready to run jobs for one handler. Owned by whoever runs its jobs; open() and the
// destructor on one thread, before the first job and after the last. Its code stays in the process for good:
// a thread that the plugin has left behind, or what it registered for the end of a thread, may still stand in
// it.
class PluginFile {
 public:
  // The absolute path of a file that is there. A relative one, without a slash too, starts at the working
  // directory; the linker's search paths are not for plugins. The error is a sentence that begins with the
  // path.
  static std::expected<std::string, std::string> locate(const std::string& path);
  // Opens the shared object at `path`, which is found as by locate(), and calls its init for `handler`. The
  // error says what is wrong with the file and what to do, in a sentence that begins with the path.
  static std::expected<PluginFile, std::string> open(const std::string& path, std::string_view handler);

  PluginFile(PluginFile&& other) noexcept
      : plugin_(std::exchange(other.plugin_, nullptr)), state_(other.state_) {}
  PluginFile& operator=(PluginFile&&) = delete;
  // Calls its teardown.
  ~PluginFile();

  // Constant, for as long as the process lives.
  const locksley_plugin& plugin() const { return *plugin_; }
  void* state() const { return state_; }
  std::string_view name() const { return {plugin_->name.data, plugin_->name.size}; }
  std::string_view description() const { return {plugin_->description.data, plugin_->description.size}; }

 private:
  PluginFile(const locksley_plugin& plugin, void* state) : plugin_(&plugin), state_(state) {}

  const locksley_plugin* plugin_;  // null: moved from
  void* state_;                    // what its init left
};

}  // namespace locksley::daemon
