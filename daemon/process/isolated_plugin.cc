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

#include "daemon/exit_codes.h"
#include "daemon/handlers/plugin_file.h"
#include "daemon/process/child.h"
#include "daemon/process/job_end.h"
#include "daemon/process/process_pipes.h"

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

// Its end; what it has left in its group ends with it.
siginfo_t reap(pid_t pid) {
  siginfo_t end{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  ::kill(-pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return end;
}

// The plugin's description.
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
    auto made = make_confinement(request.confinement);
    if (!made) return std::unexpected(std::move(made.error()));
    rules = std::move(*made);
  }
  const Started started = start_program(request, descriptors, rules.get());
  if (started.pid < 0) {
    return std::unexpected(fmt::format("{}: its process cannot be started: {}", file,
                                       std::generic_category().message(started.error)));
  }
  output->write.close();
  std::string said = read_to_end(output->read.get());
  const siginfo_t end = reap(started.pid);
  const bool has_exited = end.si_code == CLD_EXITED;
  if (has_exited && end.si_status == kExitOk) return said;
  if (has_exited && end.si_status == kExitConfig && !said.empty()) return std::unexpected(std::move(said));
  return std::unexpected(
      fmt::format("{}: the process that tried it out ended before it could say anything: {}", file,
                  has_exited ? fmt::format("exit status {}", end.si_status) : killed_by(end.si_status)));
}

}  // namespace

std::expected<IsolatedPlugin, std::string> prepare_isolated_plugin(const std::string& handler,
                                                                   const config::Handler& settings) {
  const auto refuse = [&](std::string_view why) {
    return std::unexpected(fmt::format("handlers.{}.plugin: {}", handler, why));
  };
  // The processes may work in another directory.
  const auto file = PluginFile::locate(settings.plugin);
  if (!file) return refuse(file.error());
  config::Handler as_worker = settings;
  // This program also when its file has been replaced since. In one word each, whatever they begin with.
  as_worker.worker = {"/proc/self/exe", "--plugin-worker=" + *file, "--handler=" + handler};
  if (config::Confine& confine = as_worker.confine; !confine.read.empty() || !confine.write.empty()) {
    // What it consists of. Shared libraries are for the operator to name.
    std::error_code error;
    confine.read.push_back(*file);
    confine.read.push_back(std::filesystem::read_symlink("/proc/self/exe", error));
  }
  auto program = Program::make(handler, as_worker);
  if (!program) return std::unexpected(std::move(program.error()));
  auto description = try_out(*program, *file);
  if (!description) return refuse(description.error());
  return IsolatedPlugin{std::move(*program), std::move(*description)};
}

}  // namespace locksley::daemon
