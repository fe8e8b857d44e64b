#include "daemon/process/keeper/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

namespace locksley::daemon {
namespace {

// Everything that the child needs, prepared before vfork(): after it the child must not allocate.
struct Prepared {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  ProgramFiles programs;             // tried one after the other
  std::span<const int> descriptors;  // become 0, 1, 2, …
  const SpawnRequest* request = nullptr;
  pid_t parent = 0;
  int confinement = -1;  // the rules; -1: none
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

ProgramFiles::ProgramFiles(const SpawnRequest& request)
    : name_(request.arguments.front()),
      folders_(request.path),
      has_folder_(name_.find('/') != std::string_view::npos) {}

bool ProgramFiles::has_too_long_name() const {
  return name_.size() > (has_folder_ ? std::size_t{PATH_MAX} - 1 : std::size_t{NAME_MAX});
}

const char* ProgramFiles::next() {
  if (has_too_long_name()) return nullptr;
  while (!is_over_) {
    const std::size_t end = folders_.find(':');
    const std::string_view folder = has_folder_ ? std::string_view() : folders_.substr(0, end);
    is_over_ = has_folder_ || end == std::string_view::npos;
    if (!is_over_) folders_.remove_prefix(end + 1);
    if (has_folder_ && set(folder, "")) return file_.data();
    if (!folder.empty() && set(folder, "/")) return file_.data();
  }
  return nullptr;
}

bool ProgramFiles::set(std::string_view folder, std::string_view slash) {
  if (folder.size() + slash.size() + name_.size() >= file_.size()) return false;
  char* end = file_.data();
  for (const std::string_view part : {folder, slash, name_}) end = std::ranges::copy(part, end).out;
  *end = '\0';
  return true;
}

namespace {

bool limit(int resource, std::uint64_t value) {
  if (value == 0) return true;
  // The hard limit is one second higher, so that SIGXCPU comes before SIGKILL.
  const rlimit wanted{value, resource == RLIMIT_CPU ? value + 1 : value};
  return ::setrlimit(static_cast<__rlimit_resource>(resource), &wanted) == 0;
}

// Runs in the child, in the parent's memory: system calls only. `result` is read by the parent.
[[noreturn]] void become(Prepared& prepared, volatile Started& result) {
  const SpawnRequest& request = *prepared.request;
  const auto fail = [&result](KeeperReport::Step step) {
    result.step = step;
    result.error = errno;
    ::_exit(127);
  };
  using Step = KeeperReport::Step;
  if (::setpgid(0, 0) != 0) fail(Step::kGroup);
  // The bare system call: the C library reserves two signals, which it left ignored when it started
  // the keeper. All zeros are SIG_DFL without flags.
  constexpr std::array<unsigned long, 4> kUsual{};
  for (int signal = 1; signal < NSIG; ++signal) {
    ::syscall(SYS_rt_sigaction, signal, kUsual.data(), nullptr, NSIG / 8);
  }
  for (std::size_t i = 0; i < prepared.descriptors.size(); ++i) {
    if (::dup2(prepared.descriptors[i], static_cast<int>(i)) < 0) fail(Step::kDescriptors);
  }
  if (!limit(RLIMIT_CPU, request.cpu_seconds) || !limit(RLIMIT_AS, request.memory_bytes) ||
      !limit(RLIMIT_FSIZE, request.file_bytes) || !limit(RLIMIT_NOFILE, request.files) ||
      !limit(RLIMIT_NPROC, request.processes)) {
    fail(Step::kLimits);
  }
  if (request.files == 0) {
    // The daemon has raised its own limit, for its clients. 1,024 is the usual limit; programs may
    // raise it.
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = std::min<rlim_t>(files.rlim_cur, 1024);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // A keeper that already runs as this user cannot change its groups.
  const bool is_user = ::geteuid() == request.user && ::getegid() == request.group;
  if (request.changes_user && !(is_user && request.user != 0)) {
    // The bare system calls: the C library's would signal all threads of the parent.
    if (::syscall(SYS_setgroups, 0, nullptr) != 0 ||
        ::syscall(SYS_setresgid, request.group, request.group, request.group) != 0 ||
        ::syscall(SYS_setresuid, request.user, request.user, request.user) != 0) {
      fail(Step::kUser);
    }
  }
  // After the change of user: a keeper that is root could enter folders that are closed to the
  // user.
  if (!request.directory.empty() && ::chdir(request.directory.c_str()) != 0) fail(Step::kDirectory);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(Step::kUser);
  if (prepared.confinement >= 0 && !enter_confinement(prepared.confinement)) fail(Step::kConfinement);
  ::syscall(SYS_close_range, static_cast<unsigned>(prepared.descriptors.size()), ~0U, 0U);
  // After the change of user, which would reset it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(127);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  int error = prepared.programs.has_too_long_name() ? ENAMETOOLONG : ENOENT;
  while (const char* const program = prepared.programs.next()) {
    ::execve(program, prepared.arguments.data(), prepared.environment.data());
    // A file without permission is reported in preference to missing ones.
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
    if (error != EACCES && error != ENOENT) break;
  }
  errno = error;
  fail(Step::kProgram);
  ::_exit(127);
}

}  // namespace

Started start_program(const SpawnRequest& request, std::span<const int> descriptors, int confinement) {
  Prepared prepared{.arguments = pointers(request.arguments),
                    .environment = pointers(request.environment),
                    .programs = ProgramFiles(request),
                    .descriptors = descriptors,
                    .request = &request,
                    .parent = ::getpid(),
                    .confinement = confinement};
  volatile Started result;
  // The child shares the parent's memory, so no signal handler may run in it.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();
  if (pid == 0) become(prepared, result);
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return {-1, KeeperReport::Step::kMemory, error};
  if (result.step != KeeperReport::Step::kNone) {
    ::waitpid(pid, nullptr, 0);
    return {-1, result.step, result.error};
  }
  return {pid, KeeperReport::Step::kNone, 0};
}

}  // namespace locksley::daemon
