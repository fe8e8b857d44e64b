#include "daemon/base/plugin/plugin_file.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <system_error>

#include "daemon/base/plugin/plugin_text.h"

namespace locksley::daemon {
namespace {

constexpr const char* kEntry = "locksley_plugin_entry";
using Entry = decltype(&locksley_plugin_entry);

// dlerror() without the file's name, with which our sentences begin.
std::string linker_says(const std::string& file) {
  const char* reason = ::dlerror();
  std::string text = reason != nullptr ? reason : "no reason given";
  if (text.starts_with(file + ": ")) text.erase(0, file.size() + 2);
  return text;
}

// Says why the plugin cannot be run; empty if it can.
std::string find_fault(const locksley_plugin* plugin) {
  if (plugin == nullptr) return std::string(kEntry) + "() returns no description";
  if (plugin->abi != LOCKSLEY_PLUGIN_ABI) {
    return fmt::format(
        "it was built for version {} of the plugin ABI, and this program has version {}: build "
        "it again with the headers of this version",
        plugin->abi, LOCKSLEY_PLUGIN_ABI);
  }
  // The size of the struct in its first version; later versions are only larger.
  constexpr std::size_t kSmallest = offsetof(locksley_plugin, run) + sizeof(locksley_plugin::run);
  if (plugin->size < kSmallest) {
    return fmt::format(
        "its description has {} bytes, and version {} of the plugin ABI needs {}: set `size` to "
        "sizeof(locksley_plugin)",
        plugin->size, LOCKSLEY_PLUGIN_ABI, kSmallest);
  }
  if (plugin->run == nullptr) return "its description has no function `run`";
  return {};
}

// The context of init, with the text of its failure.
struct Setup : locksley_setup {
  explicit Setup(std::string_view name)
      : locksley_setup{LOCKSLEY_PLUGIN_ABI, sizeof(locksley_setup), text(name), note} {}

  static std::int32_t note(locksley_setup* setup, locksley_text why) {
    static_cast<Setup*>(setup)->failure.assign(why.data, why.size);
    return LOCKSLEY_FAILED;
  }

  std::string failure;
};

}  // namespace

std::expected<std::string, std::string> PluginFile::locate(const std::string& path) {
  const auto refuse = [&](std::string_view why) { return std::unexpected(fmt::format("{}: {}", path, why)); };

  std::error_code error;
  std::string file = std::filesystem::absolute(path, error).lexically_normal();
  if (error) return refuse("where it is cannot be told: " + error.message());
  if (!std::filesystem::exists(file, error)) {
    const bool is_relative = std::filesystem::path(path).is_relative();
    return refuse(
        error ? "cannot be looked at: " + error.message()
        : is_relative
            ? fmt::format("there is no file {}; a relative path starts at the working directory", file)
            : "there is no such file");
  }
  return file;
}

std::expected<PluginFile, std::string> PluginFile::open(const std::string& path, std::string_view handler) {
  const auto refuse = [&](std::string_view why) { return std::unexpected(fmt::format("{}: {}", path, why)); };

  const auto located = locate(path);
  if (!located) return std::unexpected(located.error());
  const std::string& file = *located;
  // RTLD_NOW: a missing function is an error here, not in a job. RTLD_LOCAL: plugins do not see
  // each other's symbols.
  void* const object = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    return refuse(
        fmt::format("cannot be loaded: {}. A plugin is a shared object for this machine, linked "
                    "with everything that it uses",
                    linker_says(file)));
  }
  const auto entry = reinterpret_cast<Entry>(::dlsym(object, kEntry));
  if (entry == nullptr) {
    ::dlclose(object);
    return refuse(
        fmt::format("exports no function {}, so it is no plugin: define it with LOCKSLEY_PLUGIN of "
                    "core/plugin_cxx.h, or as core/plugin.h says",
                    kEntry));
  }
  const locksley_plugin* plugin = entry();
  if (const std::string fault = find_fault(plugin); !fault.empty()) {
    ::dlclose(object);
    return refuse(fault);
  }

  void* state = nullptr;
  if (plugin->init != nullptr) {
    Setup setup(handler);
    // The object stays open even if init fails: the plugin may have started threads.
    if (plugin->init(&setup, &state) != LOCKSLEY_OK) {
      return refuse("its init failed: " + (setup.failure.empty() ? "it does not say why" : setup.failure));
    }
  }
  return PluginFile(*plugin, state);
}

PluginFile::~PluginFile() {
  if (plugin_ != nullptr && plugin_->teardown != nullptr) plugin_->teardown(state_);
}

}  // namespace locksley::daemon
