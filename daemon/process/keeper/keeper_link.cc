#include "daemon/process/keeper/keeper_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <spdlog/logger.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/job.h"
#include "daemon/base/log/log_line.h"
#include "daemon/process/keeper/children.h"
#include "proto/text.h"

namespace locksley::daemon {
namespace {

std::string text_of(int error) { return std::generic_category().message(error); }

std::string explain(const KeeperReport& report, std::string_view program) {
  using Step = KeeperReport::Step;
  const std::string error = text_of(report.error);
  switch (report.step) {
    case Step::kProgram:
      return fmt::format("the program '{}' cannot be started: {}", program, error);
    case Step::kDirectory:
      return "its directory cannot be entered: " + error;
    case Step::kUser:
      return "it cannot be run as another user: " + error;
    case Step::kLimits:
      return "its limits cannot be set: " + error;
    case Step::kConfinement:
      return "it cannot be confined: " + error;
    case Step::kDescriptors:
    case Step::kGroup:
    case Step::kMemory:
    case Step::kNone:
      break;
  }
  return "cannot start a process: " + error;
}

// The keeper's time to kill and reap all processes after its socket is closed, and the kernel's
// time to end processes after SIGKILL. Both take milliseconds; a guess for a machine that is very
// busy.
constexpr auto kKeeperGrace = std::chrono::seconds(3);

// How long the keeper may leave a full socket unread. It reads nothing while it starts a program,
// that is while the kernel opens a folder and a file. A guess: a network file system that answers
// at all answers within this time.
constexpr auto kReadGrace = std::chrono::seconds(10);

// False: the child has not ended. Polled, since this happens once in a keeper's life.
bool ends_before(pid_t child, Instant deadline) {
  for (;;) {
    const pid_t ended = ::waitpid(child, nullptr, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return true;
    if (now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Kills the processes that programs had started: when the keeper died, its own children died with
// it, and their children became this process's.
void kill_orphans() {
  const auto deadline = now() + kKeeperGrace;
  for (std::vector<pid_t> left = all_children(); !left.empty(); left = all_children()) {
    // A process that is not root cannot kill those of other users.
    std::erase_if(left, [](pid_t child) { return ::kill(child, SIGKILL) != 0; });
    if (left.empty()) return;
    for (const pid_t child : left) {
      if (!ends_before(child, deadline)) return;
    }
  }
}

// Waits for the end of the keeper, which has lost its socket, or has died. If it does not end (any
// process of its user can stop it), kills it, and the processes that it leaves behind.
void end_keeper(pid_t keeper) {
  if (ends_before(keeper, now() + kKeeperGrace)) return;
  ::kill(keeper, SIGKILL);
  ends_before(keeper, now() + kKeeperGrace);
  kill_orphans();
}

}  // namespace

KeeperLink::KeeperLink(ProcessExecutor executor, std::shared_ptr<spdlog::logger> log)
    : executor_(executor), log_(std::move(log)), socket_(executor) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

KeeperLink::~KeeperLink() {
  asio::error_code ignored;
  socket_.close(ignored);
  // The keeper ends when it has killed and reaped all processes.
  if (keeper_ > 0) end_keeper(keeper_);
}

std::expected<void, std::string> KeeperLink::start_as_root(const std::vector<KeeperUser>& users) {
  // The loop's thread has not started yet.
  const ThreadRoleScope role(kProcessThread);
  if (!start_keeper(encode(users))) return std::unexpected("cannot start a process: " + text_of(errno));
  is_irreplaceable_ = true;
  return {};
}

bool KeeperLink::start_keeper(const std::string& users) {
  std::array<int, 2> ends;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
  constexpr int kBuffer = 1 << 20;
  ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &kBuffer, sizeof kBuffer);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_adddup2(&actions, 0, 1);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], kKeeperSocket);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, kKeeperSocket + 1);
  std::string name = "locksleyd";
  std::string option = "--keeper";
  std::string only = "--keeper-users=" + users;
  const std::array<char*, 4> arguments{name.data(), option.data(), users.empty() ? nullptr : only.data(),
                                       nullptr};
  const std::array<char*, 1> environment{nullptr};
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    errno = error;
    return false;
  }
  keeper_ = pid;
  received_size_ = 0;
  socket_.assign(ends[0]);
  read();
  return true;
}

std::uint64_t KeeperLink::start(const SpawnRequest& request, std::span<const int> descriptors,
                                Callbacks callbacks) {
  const std::uint64_t process = ++last_process_;
  processes_.emplace(process, Process{std::move(callbacks), proto::printable(request.arguments.front())});
  if (!is_running() && is_irreplaceable_) {
    fail_later(process,
               "the process that starts programs as other users has died, and only root can start it: "
               "restart the daemon");
    return process;
  }
  if (!is_running() && !start_keeper()) {
    fail_later(process, "cannot start a process: " + text_of(errno));
    return process;
  }
  const std::string bytes = encode(request);
  if (bytes.size() > kLargestRequest) {
    fail_later(process, "its arguments are too long");
    return process;
  }
  const KeeperOrder order{KeeperOrder::Kind::kSpawn, static_cast<std::uint32_t>(bytes.size()), process, 0,
                          static_cast<std::uint32_t>(descriptors.size())};
  // If the keeper has died, read() will notice, and report the end of this process with that of the
  // others.
  send(order, bytes, descriptors);
  return process;
}

void KeeperLink::signal(std::uint64_t process, int signal) {
  if (is_running()) send({KeeperOrder::Kind::kSignal, 0, process, signal, 0}, {}, {});
}

void KeeperLink::send(const KeeperOrder& order, std::string_view request, std::span<const int> descriptors) {
  std::array<iovec, 2> parts{{{const_cast<KeeperOrder*>(&order), sizeof order},
                              {const_cast<char*>(request.data()), request.size()}}};
  std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  // The keeper does not read while it starts a program. (Asio has made the socket non-blocking.)
  std::size_t left = sizeof order + request.size();
  while (left != 0) {
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      pollfd room{socket_.native_handle(), POLLOUT, 0};
      if (::poll(&room, 1, static_cast<int>(std::chrono::milliseconds(kReadGrace).count())) != 0) continue;
      give_up();
      return;
    }
    if (sent < 0) return;
    left -= static_cast<std::size_t>(sent);
    message.msg_control = nullptr;
    message.msg_controllen = 0;
    auto left_of_sent = static_cast<std::size_t>(sent);
    for (iovec& part : parts) {
      const std::size_t step = std::min(left_of_sent, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + step;
      part.iov_len -= step;
      left_of_sent -= step;
    }
  }
}

void KeeperLink::give_up() {
  LogLine("the keeper does not answer: it is killed, and all processes of handlers with it")
      .with("pid", keeper_)
      .write(*log_, spdlog::level::err);
  ::kill(keeper_, SIGKILL);
  // read() notices the end, even if this process may not kill the keeper, which is root.
  ::shutdown(socket_.native_handle(), SHUT_RDWR);
}

void KeeperLink::read() {
  socket_.async_read_some(
      asio::buffer(received_.data() + received_size_, received_.size() - received_size_),
      [this, alive = std::weak_ptr(alive_)](const asio::error_code& error, std::size_t got) {
        if (alive.expired() || error == asio::error::operation_aborted) return;
        kProcessThread.assert_held();
        if (error) return keeper_died();
        received_size_ += got;
        std::size_t at = 0;
        for (; received_size_ - at >= sizeof(KeeperReport); at += sizeof(KeeperReport)) {
          KeeperReport report;
          std::memcpy(&report, received_.data() + at, sizeof report);
          handle(report);
          if (alive.expired()) return;
        }
        std::memmove(received_.data(), received_.data() + at, received_size_ - at);
        received_size_ -= at;
        read();
      });
}

void KeeperLink::handle(const KeeperReport& report) {
  const auto found = processes_.find(report.process);
  if (found == processes_.end()) return;
  if (report.kind == KeeperReport::Kind::kStarted) {
    if (found->second.callbacks.on_start) found->second.callbacks.on_start(report.pid);
    return;
  }
  const auto [callbacks, program] = std::move(found->second);
  processes_.erase(found);
  ProcessEnd end;
  if (report.kind == KeeperReport::Kind::kFailed) {
    end.has_started = false;
    end.why = explain(report, program);
  } else {
    end.has_exited = report.exited != 0;
    end.status = report.status;
    end.cpu_us = report.cpu_us;
    end.memory_kib = report.memory_kib;
  }
  callbacks.on_end(end);
}

void KeeperLink::fail_later(std::uint64_t process, std::string why) {
  asio::post(executor_, [this, alive = std::weak_ptr(alive_), process, why = std::move(why)] {
    if (alive.expired()) return;
    kProcessThread.assert_held();
    const auto found = processes_.find(process);
    if (found == processes_.end()) return;
    const Callbacks callbacks = std::move(found->second.callbacks);
    processes_.erase(found);
    callbacks.on_end({.has_started = false, .why = why});
  });
}

void KeeperLink::keeper_died() {
  LogLine(is_irreplaceable_
              ? "the keeper has died, and all processes of handlers with it: only root can start it, so "
                "handlers with programs fail until the daemon is restarted"
              : "the keeper has died, and all processes of handlers with it: it is restarted")
      .with("pid", keeper_)
      .write(*log_, spdlog::level::err);
  asio::error_code ignored;
  socket_.close(ignored);
  end_keeper(std::exchange(keeper_, -1));
  kill_orphans();
  const auto lost = std::exchange(processes_, {});
  for (const auto& [number, process] : lost)
    process.callbacks.on_end({.why = {}, .has_exited = false, .status = SIGKILL});
}

}  // namespace locksley::daemon
