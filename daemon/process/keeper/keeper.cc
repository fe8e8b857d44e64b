#include "daemon/process/keeper/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/process/keeper/child.h"
#include "daemon/process/keeper/children.h"
#include "daemon/process/keeper/spawn_request.h"

namespace locksley::daemon {
namespace {

std::int64_t microseconds(const timeval& time) { return time.tv_sec * 1'000'000 + time.tv_usec; }

// The socket to the daemon: whole orders in, reports out. The daemon writes the whole of an order
// at once, so the keeper may wait for its end after it has read its beginning.
class Link {
 public:
  explicit Link(int socket) : socket_(socket) {}

  struct Received {
    KeeperOrder order;
    std::vector<int> descriptors;
    std::string request;
  };

  // None: the daemon has ended.
  std::optional<Received> receive() {
    Received received;
    std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control;
    iovec part{&received.order, sizeof received.order};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t got = 0;
    do {
      got = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    } while (got < 0 && errno == EINTR);
    // If the daemon ended with unread reports, the connection is reset, and `control` is not
    // written.
    if (got <= 0) return std::nullopt;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
      const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      received.descriptors.resize(count);
      std::memcpy(received.descriptors.data(), CMSG_DATA(head), count * sizeof(int));
    }
    if (got != sizeof received.order || received.order.size > kLargestRequest) return std::nullopt;
    received.request.resize(received.order.size);
    if (!read_whole(received.request)) return std::nullopt;
    return received;
  }

  void report(const KeeperReport& report) {
    outgoing_.append(reinterpret_cast<const char*>(&report), sizeof report);
    flush();
  }
  bool has_output() const { return !outgoing_.empty(); }
  void flush() {
    while (!outgoing_.empty()) {
      const ssize_t sent = ::send(socket_, outgoing_.data(), outgoing_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return;
      outgoing_.erase(0, static_cast<std::size_t>(sent));
    }
  }

 private:
  bool read_whole(std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t got = ::recv(socket_, bytes.data() + at, bytes.size() - at, MSG_WAITALL);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += static_cast<std::size_t>(got);
    }
    return true;
  }

  const int socket_;
  std::string outgoing_;
};

class Keeper {
 public:
  Keeper(int socket, std::vector<KeeperUser> users)
      : socket_(socket), link_(socket), users_(std::move(users)) {}

  int run() {
    // Payloads pass through this process: no core dumps, no tracing.
    ::prctl(PR_SET_DUMPABLE, 0);
    // Processes that a program leaves behind become children of this one.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_NAME, "locksley-keeper");
    // The terminal's signals are for the daemon only.
    ::setsid();
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
    // If it were ignored, as a parent may have left it, the kernel would reap the children without
    // a report.
    std::signal(SIGCHLD, SIG_DFL);
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children, nullptr);
    const int ended = ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ended < 0) return 1;
    // Occupies all numbers below kMostDescriptors. So the descriptors that arrive with orders have
    // higher numbers, and no dup2() in a child overwrites one that is still needed.
    while (true) {
      const int free = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      if (free < 0) return 1;
      if (free < static_cast<int>(kMostDescriptors)) continue;
      ::close(free);
      break;
    }
    for (;;) {
      std::array<pollfd, 2> wanted{
          {{socket_, static_cast<short>(link_.has_output() ? POLLIN | POLLOUT : POLLIN), 0},
           {ended, POLLIN, 0}}};
      if (::poll(wanted.data(), wanted.size(), -1) < 0 && errno != EINTR) break;
      if ((wanted[1].revents & POLLIN) != 0) {
        signalfd_siginfo rubbish;
        while (::read(ended, &rubbish, sizeof rubbish) > 0) {
        }
        reap();
      }
      if ((wanted[0].revents & POLLOUT) != 0) link_.flush();
      if ((wanted[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !obey()) break;
    }
    kill_all();
    return 0;
  }

 private:
  // False: the daemon has ended.
  bool obey() {
    const auto received = link_.receive();
    if (!received) return false;
    const KeeperOrder& order = received->order;
    if (order.kind == KeeperOrder::Kind::kSignal) {
      const auto found = pids_.find(order.process);
      if (found != pids_.end()) signal(found->second, order.signal);
      return true;
    }
    Started started;
    if (const auto request = decode_spawn_request(received->request)) {
      started = start(*request, received->descriptors);
    } else {
      started = {-1, KeeperReport::Step::kMemory, EINVAL};
    }
    for (const int descriptor : received->descriptors) ::close(descriptor);
    KeeperReport report{};
    report.process = order.process;
    report.kind = started.pid < 0 ? KeeperReport::Kind::kFailed : KeeperReport::Kind::kStarted;
    report.step = started.step;
    report.error = started.error;
    report.pid = started.pid;
    if (started.pid >= 0) {
      processes_.emplace(started.pid, order.process);
      pids_.emplace(order.process, started.pid);
    }
    link_.report(report);
    return true;
  }

  bool may_run(const SpawnRequest& request) const {
    if (users_.empty()) return true;
    return request.changes_user &&
           std::ranges::find(users_, KeeperUser{request.user, request.group}) != users_.end();
  }

  Started start(const SpawnRequest& request, const std::vector<int>& descriptors) {
    if (!may_run(request)) return {-1, KeeperReport::Step::kUser, EPERM};
    if (!request.confinement.is_needed()) return start_program(request, descriptors);
    // Made for each program: rules are about the folders that bear the names now, and a name may
    // have been given to another folder since the last start.
    const auto rules = make_confinement(request.confinement);
    if (!rules) return {-1, KeeperReport::Step::kConfinement, rules.error().code};
    return start_program(request, descriptors, rules->get());
  }

  static void signal(pid_t pid, int signal) {
    // The process may have moved to another group.
    if (::getpgid(pid) != pid) ::kill(pid, signal);
    ::kill(-pid, signal);
  }

  // Reports all processes that have ended, and kills those that they left behind.
  void reap() {
    bool has_ended = false;
    for (;;) {
      siginfo_t info{};
      // The process is reaped only after its group has been killed: until then no other group can
      // get its number.
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
      const auto found = processes_.find(info.si_pid);
      if (found != processes_.end()) ::kill(-info.si_pid, SIGKILL);
      int status = 0;
      rusage usage{};
      if (::wait4(info.si_pid, &status, WNOHANG, &usage) != info.si_pid) break;
      has_ended = true;
      if (found == processes_.end()) continue;
      KeeperReport report{};
      report.kind = KeeperReport::Kind::kEnded;
      report.process = found->second;
      report.pid = info.si_pid;
      report.exited = WIFEXITED(status) ? 1 : 0;
      report.status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
      report.cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
      report.memory_kib = usage.ru_maxrss;
      pids_.erase(found->second);
      processes_.erase(found);
      link_.report(report);
    }
    if (has_ended) kill_strays();
  }

  // Kills children that have left their job's process group and whose parent has ended: they cannot
  // be attributed to a job.
  void kill_strays() {
    for (const pid_t child : own_children()) {
      if (!processes_.contains(child) && !processes_.contains(::getpgid(child))) ::kill(child, SIGKILL);
    }
  }

  void kill_all() {
    for (const auto& [pid, process] : processes_) ::kill(-pid, SIGKILL);
    // Each death may make this process the parent of more.
    for (;;) {
      for (const pid_t child : own_children()) ::kill(child, SIGKILL);
      if (::waitpid(-1, nullptr, 0) < 0 && errno != EINTR) return;
    }
  }

  const int socket_;
  Link link_;
  const std::vector<KeeperUser> users_;
  std::unordered_map<pid_t, std::uint64_t> processes_;
  std::unordered_map<std::uint64_t, pid_t> pids_;
};

}  // namespace

std::string encode(const std::vector<KeeperUser>& users) {
  std::string word;
  for (const auto& [user, group] : users) {
    if (!word.empty()) word += ',';
    word += std::to_string(user) + ':' + std::to_string(group);
  }
  return word;
}

std::expected<std::vector<KeeperUser>, std::string> decode_keeper_users(std::string_view word) {
  std::vector<KeeperUser> users;
  const char* at = word.data();
  const char* const end = at + word.size();
  const auto number = [&](std::uint32_t& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc();
  };
  const auto skip = [&](char wanted) { return at != end && *at++ == wanted; };
  while (at != end) {
    KeeperUser one{};
    if (!users.empty() && !skip(',')) return std::unexpected("no list of users");
    if (!number(one.user) || !skip(':') || !number(one.group)) return std::unexpected("no list of users");
    users.push_back(one);
  }
  return users;
}

int keep_processes(int socket, std::string_view users) {
  auto decoded = decode_keeper_users(users);
  return decoded ? Keeper(socket, std::move(*decoded)).run() : 1;
}

}  // namespace locksley::daemon
