#include "daemon/process/isolated_plugin.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "config/units.h"
#include "daemon/base/exit_codes.h"
#include "daemon/base/plugin/plugin_file.h"
#include "daemon/process/io/process_pipes.h"
#include "daemon/process/run_to_end.h"
#include "daemon/process/runners/job_end.h"

namespace locksley::daemon {
namespace {

// The time limit of the check, which runs the plugin's init. A guess: a model of several gigabytes
// is read from a slow disk in less.
constexpr auto kCheckLimit = std::chrono::minutes(2);

// Runs the check, and returns the plugin's description.
std::expected<std::string, std::string> try_out(const Program& program, const std::string& file) {
  SpawnRequest request = program.request();
  request.arguments.emplace_back("--check");
  Descriptor rules;
  if (request.confinement.is_needed()) {
    auto created = make_confinement(request.confinement);
    if (!created) return std::unexpected(std::move(created.error().what));
    rules = std::move(*created);
  }
  auto end = run_to_end(request, rules.get(), kCheckLimit);
  if (!end) {
    return std::unexpected(fmt::format("{}: cannot start the process that checks it: {}", file,
                                       std::generic_category().message(end.error().error)));
  }
  if (end->has_timed_out) {
    return std::unexpected(
        fmt::format("{}: the check of the plugin was killed after {}: see what the plugin's init waits for",
                    file, config::to_string(config::Duration(kCheckLimit))));
  }
  if (end->has_exited && end->status == kExitOk) return std::move(end->output);
  if (end->has_exited && end->status == kExitConfig && !end->output.empty())
    return std::unexpected(std::move(end->output));
  return std::unexpected(
      fmt::format("{}: the process that checks it ended without a result: {}", file,
                  end->has_exited ? fmt::format("exit status {}", end->status) : killed_by(end->status)));
}

}  // namespace

std::expected<IsolatedPlugin, std::string> prepare_isolated_plugin(const std::string& handler,
                                                                   const config::Handler& settings,
                                                                   const KeeperUsers& users) {
  const auto refuse = [&](std::string_view why) {
    return std::unexpected(fmt::format("handlers.{}.plugin: {}", handler, why));
  };
  // The worker may have another working directory.
  const auto file = PluginFile::locate(settings.plugin);
  if (!file) return refuse(file.error());
  config::Handler as_worker = settings;
  // /proc/self/exe is this program even if its file has been replaced since. Each option and its
  // value are one word, so that a value may begin with a dash.
  as_worker.worker = {"/proc/self/exe", "--plugin-worker=" + *file, "--handler=" + handler};
  if (config::Confine& confine = as_worker.confine; !confine.read.empty() || !confine.write.empty()) {
    // The files that a worker always needs. The operator names further shared libraries.
    std::error_code error;
    confine.read.push_back(*file);
    confine.read.push_back(std::filesystem::read_symlink("/proc/self/exe", error));
  }
  auto program = Program::make(handler, as_worker, users);
  if (!program) return std::unexpected(std::move(program.error()));
  if (program->is_for_another()) {
    return refuse(fmt::format("{}: it cannot be checked as '{}' after root was given up: restart the daemon",
                              *file, settings.user));
  }
  auto description = try_out(*program, *file);
  if (!description) return refuse(description.error());
  return IsolatedPlugin{std::move(*program), std::move(*description)};
}

}  // namespace locksley::daemon
