#include "daemon/process/isolated_plugin.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/base/exit_codes.h"
#include "daemon/base/plugin_file.h"
#include "daemon/process/keeper/child.h"
#include "daemon/process/process_pipes.h"
#include "daemon/process/runners/job_end.h"

namespace locksley::daemon {
namespace {

std::string read_to_end(int descriptor) {
  std::string result;
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return result;
    result.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

// Waits for the process's end, and kills what remains in its group.
siginfo_t reap(pid_t pid) {
  siginfo_t end{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  ::kill(-pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return end;
}

// Runs the check, and returns the plugin's description.
std::expected<std::string, std::string> try_out(const Program& program, const std::string& file) {
  SpawnRequest request = program.request();
  request.arguments.emplace_back("--check");
  auto null = open_null();
  if (!null) return std::unexpected(null.error());
  auto output = make_pipe();
  if (!output) return std::unexpected(output.error());
  const std::array<int, 3> descriptors{null->get(), output->write.get(), STDERR_FILENO};
  Descriptor rules;
  if (request.confinement.is_needed()) {
    auto created = make_confinement(request.confinement);
    if (!created) return std::unexpected(std::move(created.error()));
    rules = std::move(*created);
  }
  const Started started = start_program(request, descriptors, rules.get());
  if (started.pid < 0) {
    return std::unexpected(fmt::format("{}: cannot start the process that checks it: {}", file,
                                       std::generic_category().message(started.error)));
  }
  output->write.close();
  std::string answer = read_to_end(output->read.get());
  const siginfo_t end = reap(started.pid);
  const bool has_exited = end.si_code == CLD_EXITED;
  if (has_exited && end.si_status == kExitOk) return answer;
  if (has_exited && end.si_status == kExitConfig && !answer.empty())
    return std::unexpected(std::move(answer));
  return std::unexpected(
      fmt::format("{}: the process that checks it ended without a result: {}", file,
                  has_exited ? fmt::format("exit status {}", end.si_status) : killed_by(end.si_status)));
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
