#include "daemon/handlers/plugin_worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>

#include "daemon/base/exit_codes.h"
#include "daemon/handlers/plugin_lone_host.h"
#include "proto/command_reader.h"

namespace locksley::daemon {
namespace {

// The descriptors of the protocol.
struct Channel {
  int requests;
  int answers;
};

// Moves the protocol away from standard input and output, which the plugin and its child processes
// may use.
Channel take_channel() {
  const Channel channel{::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
                        ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::close(null);
  // Line buffering, so that the plugin's output is logged at once, even if the process crashes
  // later.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return channel;
}

void set_termination(int how) {
  sigset_t termination;
  ::sigemptyset(&termination);
  ::sigaddset(&termination, SIGTERM);
  ::pthread_sigmask(how, &termination, nullptr);
}

bool write_all(int descriptor, std::span<iovec> parts) {
  while (!parts.empty()) {
    const ssize_t wrote = ::writev(descriptor, parts.data(), static_cast<int>(parts.size()));
    if (wrote < 0 && errno != EINTR) return false;
    auto left_of_written = static_cast<std::size_t>(wrote < 0 ? 0 : wrote);
    while (!parts.empty() && left_of_written >= parts.front().iov_len) {
      left_of_written -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (parts.empty()) break;
    parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + left_of_written;
    parts.front().iov_len -= left_of_written;
  }
  return true;
}

iovec part(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

// Writes a bulk string, or a blob error, which unlike a simple error may contain any bytes.
bool write_answer(int descriptor, const LoneResult& result) {
  std::array<char, 32> head;
  const auto end = fmt::format_to(head.begin(), "{}{}\r\n", result.is_ok ? '$' : '!', result.text.size());
  std::array<iovec, 3> parts{part({head.data(), static_cast<std::size_t>(end - head.begin())}),
                             part(result.text), part("\r\n")};
  return write_all(descriptor, parts);
}

std::string text_of(int error) { return std::generic_category().message(error); }

int give_up(int exit_code, std::string_view why) {
  fmt::print(stderr, "{}\n", why);
  return exit_code;
}

}  // namespace

int serve_plugin(const PluginFile& plugin, int requests, int answers) {
  // The daemon has bounded the payloads already.
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  proto::CommandReader reader(proto::Limits{.max_bulk_bytes = kAny, .max_command_bytes = kAny});
  proto::Command request;
  set_termination(SIG_BLOCK);
  for (;;) {
    const std::span<std::byte> space = reader.prepare();
    const ssize_t got = ::read(requests, space.data(), space.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return give_up(kExitIoError, "cannot read a job: " + text_of(errno));
    if (got == 0) return kExitOk;
    reader.commit(static_cast<std::size_t>(got));
    proto::ReadStatus status = reader.next(request);
    for (; status == proto::ReadStatus::kComplete; status = reader.next(request)) {
      LoneJob job;
      const std::string_view index = request.arguments.size() == 3 ? request.arguments[1] : "";
      const auto parsed = std::from_chars(index.begin(), index.end(), job.index);
      if (parsed.ec != std::errc() || parsed.ptr != index.end()) {
        return give_up(kExitProtocol, "a job is not an array of payload, index and batch");
      }
      job.batch_id = request.arguments[2];
      set_termination(SIG_UNBLOCK);
      const LoneResult result =
          run_plugin_job_alone(plugin.plugin(), plugin.state(), job, request.arguments[0]);
      // Before the answer, after which the daemon may end the process.
      set_termination(SIG_BLOCK);
      if (!write_answer(answers, result)) {
        return give_up(kExitIoError, "cannot write an answer: " + text_of(errno));
      }
    }
    if (status == proto::ReadStatus::kError) return give_up(kExitProtocol, reader.error().message);
  }
}

int run_plugin_worker(const std::string& file, const std::string& handler) {
  const Channel channel = take_channel();
  // Before the plugin starts threads, which would otherwise receive the signal instead of this
  // thread.
  set_termination(SIG_BLOCK);
  const auto plugin = PluginFile::open(file, handler);
  if (!plugin) return give_up(kExitConfig, plugin.error());
  return serve_plugin(*plugin, channel.requests, channel.answers);
}

int check_plugin(const std::string& file, const std::string& handler) {
  const Channel channel = take_channel();
  std::string answer;
  int exit_code = kExitOk;
  if (const auto plugin = PluginFile::open(file, handler); plugin) {
    answer = plugin->description();
  } else {
    answer = plugin.error();
    exit_code = kExitConfig;
  }
  std::array<iovec, 1> parts{part(answer)};
  return write_all(channel.answers, parts) ? exit_code : kExitIoError;
}

}  // namespace locksley::daemon
