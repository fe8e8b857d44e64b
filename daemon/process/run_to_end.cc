#include "daemon/process/run_to_end.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "core/base/job.h"
#include "daemon/process/io/process_pipes.h"

namespace locksley::daemon {
namespace {

// A pipe of which one end is read without waiting.
class Output {
 public:
  explicit Output(Descriptor read_end) : pipe_(std::move(read_end)) {}

  // Reads the bytes that are there now.
  void read() {
    std::array<char, 4096> bytes;
    while (pipe_.get() >= 0) {
      const ssize_t got = ::read(pipe_.get(), bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return;
      if (got == 0) return pipe_.close();
      text_.append(bytes.data(), std::min(static_cast<std::size_t>(got), kMostRunOutput - text_.size()));
      // For a program that writes without end, reads alternate with checks of the deadline.
      if (static_cast<std::size_t>(got) < bytes.size()) return;
    }
  }
  int descriptor() const { return pipe_.get(); }  // -1: all writers have closed it
  std::string take() { return std::move(text_); }

 private:
  Descriptor pipe_;
  std::string text_;
};

// Whether the process has ended. Does not reap it: so no other process gets its number.
bool has_ended(pid_t pid) {
  siginfo_t end{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOWAIT | WNOHANG) != 0 || end.si_pid != 0;
}

// Reads the output until the process has ended. False: the process still runs at the deadline.
bool wait_for_end(pid_t pid, Output& output, Instant deadline) {
  const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  while (!has_ended(pid)) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now());
    if (left.count() <= 0) return false;
    // Without a pidfd (Linux before 5.3), polls the process.
    constexpr auto kLook = std::chrono::milliseconds(10);
    const auto wait = ended.get() >= 0 ? left : std::min(left, kLook);
    std::array<pollfd, 2> wanted{{{output.descriptor(), POLLIN, 0}, {ended.get(), POLLIN, 0}}};
    ::poll(wanted.data(), wanted.size(), static_cast<int>(wait.count()));
    output.read();
  }
  return true;
}

std::unexpected<Started> not_started(int error) {
  return std::unexpected(Started{.pid = -1, .step = KeeperReport::Step::kDescriptors, .error = error});
}

}  // namespace

std::expected<RunEnd, Started> run_to_end(const SpawnRequest& request, int confinement,
                                          std::chrono::milliseconds limit) {
  auto null = open_null();
  if (!null) return not_started(errno);
  auto pipe = make_output_pipe();
  if (!pipe) return not_started(errno);
  const std::array<int, 3> descriptors{null->get(), pipe->write.get(), STDERR_FILENO};
  const Started started = start_program(request, descriptors, confinement);
  if (started.pid < 0) return std::unexpected(started);
  pipe->write.close();
  Output output(std::move(pipe->read));
  RunEnd result;
  result.has_timed_out = !wait_for_end(started.pid, output, now() + limit);
  ::kill(-started.pid, SIGKILL);
  int status = 0;
  while (::waitpid(started.pid, &status, 0) < 0 && errno == EINTR) {
  }
  output.read();
  result.output = output.take();
  result.has_exited = WIFEXITED(status);
  result.status = result.has_exited ? WEXITSTATUS(status) : WTERMSIG(status);
  return result;
}

}  // namespace locksley::daemon
