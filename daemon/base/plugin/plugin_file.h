// The shared object of a plugin: opened, checked, initialised. Knows neither pool nor
// configuration, so that both the pool's handlers and the worker processes can use it.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "core/plugin.h"

namespace locksley::daemon {

// A plugin that is ready to run jobs for one handler. Owned by the handler or worker that runs its
// jobs. open() and the destructor: one thread, before the first job and after the last; they run
// the plugin's init and teardown, which may block. The rest: any thread. The code is never
// unloaded, because a thread that the plugin has left behind, or a function that it registered for
// the end of a thread, may still use it.
class PluginFile {
 public:
  // The absolute path of an existing file. A relative path, even without a slash, starts at the
  // working directory, not in the linker's search paths. The error is a sentence that begins with
  // the path.
  static std::expected<std::string, std::string> locate(const std::string& path);
  // Opens the shared object at `path`, which locate() finds, and calls its init for `handler`. The
  // error is a sentence that begins with the path and says what is wrong and what to do.
  static std::expected<PluginFile, std::string> open(const std::string& path, std::string_view handler);

  PluginFile(PluginFile&& other) noexcept
      : plugin_(std::exchange(other.plugin_, nullptr)), state_(other.state_) {}
  PluginFile& operator=(PluginFile&&) = delete;
  // Calls the plugin's teardown.
  ~PluginFile();

  // Constant, for as long as the process lives.
  const locksley_plugin& plugin() const { return *plugin_; }
  void* state() const { return state_; }
  std::string_view name() const { return {plugin_->name.data, plugin_->name.size}; }
  std::string_view description() const { return {plugin_->description.data, plugin_->description.size}; }

 private:
  PluginFile(const locksley_plugin& plugin, void* state) : plugin_(&plugin), state_(state) {}

  const locksley_plugin* plugin_;  // null: moved from
  void* state_;                    // of its init
};

}  // namespace locksley::daemon
