#include "daemon/process/lane/program.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <ranges>
#include <set>
#include <span>
#include <system_error>

#include "daemon/process/keeper/child.h"
#include "proto/exec_payload.h"

namespace locksley::daemon {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

// The kernel's limits on the texts of a program. One argument or variable, with its NUL, may have
// 32 pages (MAX_ARG_STRLEN, which no header of the C library has). All of them together, with their
// addresses, may have a quarter of the limit of the stack, which the program inherits, and at most
// kMostForTexts: three quarters of 8 MiB (bprm_stack_limits()).
constexpr std::size_t kPagesOfText = 32;
constexpr std::size_t kMostForTexts = std::size_t{6} << 20;

constexpr std::string_view kPayload = "{}";
constexpr std::string_view kSlot = "{slot}";

std::string replace_all(const std::string& text, std::string_view what, std::string_view replacement) {
  std::string result;
  std::size_t at = 0;
  for (std::size_t found = text.find(what); found != std::string::npos; found = text.find(what, at)) {
    result.append(text, at, found - at).append(replacement);
    at = found + what.size();
  }
  return result.append(text, at);
}

struct Account {
  std::uint32_t user;
  std::uint32_t group;
  std::string home;
};

std::expected<Account, std::string> account_of(const std::string& name, const KeeperUsers& users) {
  std::array<char, 16 * 1024> buffer;
  passwd entry{};
  passwd* found = nullptr;
  ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return std::unexpected(fmt::format("there is no user '{}' on this machine", name));
  if (!users.empty()) {
    if (users.contains({entry.pw_uid, entry.pw_gid}))
      return Account{entry.pw_uid, entry.pw_gid, entry.pw_dir};
    return std::unexpected(
        fmt::format("no handler ran programs as '{}' when root was given up: restart the daemon", name));
  }
  if (::geteuid() != 0 && ::geteuid() != entry.pw_uid) {
    return std::unexpected(
        fmt::format("only root can run programs as '{}': start the daemon as root, or as that user", name));
  }
  return Account{entry.pw_uid, entry.pw_gid, entry.pw_dir};
}

// Sets these variables, NAME=value each, and replaces earlier values of the same names. If a name
// occurs twice, the last value counts. PATH also lists the folders where the program is looked up.
// A client may send a hundred thousand variables: each name is looked up in a set, not compared
// with all others.
void set_variables(SpawnRequest& request, std::span<const std::string_view> variables) {
  const auto name_of = [](std::string_view variable) { return variable.substr(0, variable.find('=')); };
  std::set<std::string_view> names;
  std::vector<std::string_view> last;
  for (const std::string_view variable : variables | std::views::reverse) {
    if (names.insert(name_of(variable)).second) last.push_back(variable);
  }
  std::erase_if(request.environment,
                [&](const std::string& other) { return names.contains(name_of(other)); });
  for (const std::string_view variable : last | std::views::reverse) {
    request.environment.emplace_back(variable);
    if (name_of(variable) == "PATH") request.path = variable.substr(variable.find('=') + 1);
  }
}

// Checks that the kernel accepts the texts of this payload for a program, before memory is
// allocated for them. The job ends with the error.
std::expected<void, std::string> check_size(std::string_view payload) {
  const std::size_t longest = kPagesOfText * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) - 1;
  std::size_t size = payload.size();
  for (std::string_view rest = payload;;) {
    const std::size_t nul = std::min(rest.find('\0'), rest.size());
    if (nul > longest) {
      return std::unexpected(
          fmt::format("its arguments are too long: an argument or a variable has {} bytes, and the kernel "
                      "takes {} at most",
                      nul, longest));
    }
    size += sizeof(char*);
    if (nul == rest.size()) break;
    rest.remove_prefix(nul + 1);
  }
  const long own = ::sysconf(_SC_ARG_MAX);
  const std::size_t most = own > 0 ? std::min(static_cast<std::size_t>(own), kMostForTexts) : kMostForTexts;
  if (size > most) {
    return std::unexpected(
        fmt::format("its arguments are too long: with 8 bytes for each they have {} bytes, and the kernel "
                    "takes {} at most",
                    size, most));
  }
  return {};
}

// The user of the processes, and the variables that every process of the handler has.
std::expected<void, std::string> set_user(SpawnRequest& request, const std::string& handler,
                                          const config::Handler& settings, const KeeperUsers& users) {
  const char* const path = std::getenv("PATH");
  request.path = path == nullptr ? std::string(kDefaultPath) : path;
  std::string home = "/";
  if (!settings.user.empty()) {
    const auto account = account_of(settings.user, users);
    if (!account) return std::unexpected(fmt::format("handlers.{}.user: {}", handler, account.error()));
    request.changes_user = ::geteuid() == 0 || !users.empty();
    request.user = account->user;
    request.group = account->group;
    home = account->home;
  } else if (const char* const own = std::getenv("HOME")) {
    home = own;
  }
  if (settings.runs_payloads && (request.changes_user ? request.user : ::geteuid()) == 0) {
    return std::unexpected(
        "exec: as root every command of every local user would run as root: set process.user to another "
        "user, "
        "or start the daemon as one");
  }
  request.environment = {"PATH=" + request.path, "HOME=" + home, "LOCKSLEY_HANDLER=" + handler};
  return {};
}

void set_limits(SpawnRequest& request, const config::Handler& settings) {
  request.cpu_seconds = static_cast<std::uint64_t>(settings.limits.cpu / std::chrono::seconds(1));
  request.memory_bytes = settings.limits.memory.count;
  request.file_bytes = settings.limits.file_size.count;
  request.files = settings.limits.files;
  request.processes = settings.limits.processes;
  request.confinement = {.read = settings.confine.read,
                         .write = settings.confine.write,
                         .confines_files = !settings.confine.read.empty() || !settings.confine.write.empty(),
                         .denies_network = settings.confine.network == config::Network::kNo};
}

}  // namespace

std::expected<Program, std::string> Program::make(const std::string& handler, const config::Handler& settings,
                                                  const KeeperUsers& users) {
  Program program;
  program.settings_ = settings;
  SpawnRequest& base = program.base_;
  base.arguments = settings.command.empty() ? settings.worker : settings.command;
  if (const auto set = set_user(base, handler, settings, users); !set) return std::unexpected(set.error());
  set_variables(base,
                std::vector<std::string_view>(settings.environment.begin(), settings.environment.end()));
  for (std::size_t i = 0; i < base.environment.size(); ++i) {
    const bool is_own =
        std::ranges::find(settings.environment, base.environment[i]) != settings.environment.end();
    if (is_own && base.environment[i].find(kSlot) != std::string::npos) program.with_slot_.push_back(i);
  }
  base.directory = settings.directory;
  set_limits(base, settings);
  if (base.confinement.is_needed()) {
    const auto rules = make_confinement(base.confinement);
    // The keeper also looks the files up, at each start. If it is root, it can reach files that
    // this process cannot.
    if (!rules && (users.empty() || rules.error().code != EACCES)) {
      return std::unexpected(fmt::format("handlers.{}.confine: {}", handler, rules.error().what));
    }
  }
  return program;
}

bool Program::starts_the_same_process_as(const Program& other) const {
  const auto without_later_settings = [](config::Handler settings) {
    const config::Handler usual;
    settings.concurrency = usual.concurrency;
    settings.rate = usual.rate;
    settings.timeout = usual.timeout;
    settings.retries = usual.retries;
    settings.grace = usual.grace;
    settings.max_jobs = usual.max_jobs;
    settings.max_memory = usual.max_memory;
    settings.remote = usual.remote;
    settings.max_running = usual.max_running;
    return settings;
  };
  return without_later_settings(settings_) == without_later_settings(other.settings_);
}

bool Program::is_for_another() const {
  return base_.changes_user && ::geteuid() != 0 && ::geteuid() != base_.user;
}

std::expected<void, std::string> Program::look_up_file(const std::string& handler) const {
  const std::string& name = base_.arguments.front();
  // With {} in the name, each job has another program.
  if (name.find(kPayload) != std::string::npos) return {};
  ProgramFiles files(base_);
  int error = files.has_too_long_name() ? ENAMETOOLONG : ENOENT;
  while (const char* const next = files.next()) {
    std::string file = next;
    if (!file.starts_with('/') && !base_.directory.empty()) file = base_.directory + "/" + file;
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(file, ignored);
    if (!is_folder && ::access(file.c_str(), X_OK) == 0) return {};
    if (is_folder || (errno != ENOENT && errno != ENOTDIR)) error = is_folder ? EACCES : errno;
  }
  if (error == EACCES && is_for_another()) return {};
  return std::unexpected(fmt::format(
      "handlers.{}.{}: the program '{}' cannot be started: {}; install it, or name the file that is there",
      handler, kind() == Kind::kCommand ? "command" : "worker", name,
      std::generic_category().message(error)));
}

SpawnRequest Program::request_for_slot(std::string_view lane, std::string_view slot) const {
  SpawnRequest request = base_;
  for (const std::size_t i : with_slot_) {
    request.environment[i] = replace_all(request.environment[i], kSlot, slot);
  }
  request.environment.push_back(fmt::format("LOCKSLEY_LANE={}", lane));
  request.environment.push_back(fmt::format("LOCKSLEY_SLOT={}", slot));
  return request;
}

std::expected<SpawnRequest, std::string> Program::request_for_command(const JobVariables& job,
                                                                      std::string_view payload) const {
  if (const auto checked = check_size(payload); !checked) return std::unexpected(checked.error());
  const auto command = proto::decode_exec_payload(payload);
  if (!command) return std::unexpected(command.error());
  if (const std::size_t name = command->words.front().size(); name >= PATH_MAX) {
    return std::unexpected(fmt::format(
        "its arguments are too long: the program's name has {} bytes, and the kernel takes {} at most", name,
        PATH_MAX - 1));
  }
  SpawnRequest request = request_for(job, {});
  request.arguments.assign(command->words.begin(), command->words.end());
  request.directory = command->directory;
  set_variables(request, command->variables);
  return request;
}

SpawnRequest Program::request_for(const JobVariables& job, std::string_view replacement) const {
  SpawnRequest request = request_for_slot(job.lane, job.slot);
  if (settings_.input != config::Input::kStdin) {
    for (std::string& argument : request.arguments) {
      if (argument.find(kPayload) != std::string::npos)
        argument = replace_all(argument, kPayload, replacement);
    }
  }
  request.environment.push_back(fmt::format("LOCKSLEY_BATCH={}", job.batch));
  request.environment.push_back(fmt::format("LOCKSLEY_INDEX={}", job.index));
  request.environment.push_back(fmt::format("LOCKSLEY_ATTEMPT={}", job.attempt));
  request.environment.push_back(fmt::format("LOCKSLEY_TENANT={}", job.tenant));
  // A variable cannot have a NUL byte.
  if (!job.note.empty())
    request.environment.push_back(fmt::format("LOCKSLEY_NOTE={}", job.note.substr(0, job.note.find('\0'))));
  if (!job.trace.empty()) request.environment.push_back(fmt::format("TRACEPARENT={}", job.trace));
  return request;
}

}  // namespace locksley::daemon
