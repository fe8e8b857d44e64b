// The daemon's side of the keeper: starts it, sends it orders, receives its reports.
#pragma once

#include <sys/types.h>

#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/process/io/process_io.h"
#include "daemon/process/keeper/keeper.h"
#include "daemon/process/keeper/spawn_request.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// How a process ended, or why it was not started.
struct ProcessEnd {
  bool has_started = true;
  std::string why;         // if not has_started: a sentence for the operator
  bool has_exited = true;  // with status `status`; else signal `status` ended it
  int status = 0;
  std::int64_t cpu_us = 0;
  std::int64_t memory_kib = 0;
};

// The connection to the keeper, which starts all processes. The first process starts the keeper.
//
// Owned by the ProcessLoop; the process thread only, which the compiler checks. start() and
// signal() may wait while the socket is full and the keeper starts a program: usually for less than
// a millisecond, but for as long as the program's folder and file take to open, up to 10 s. After
// 10 s the keeper is killed. If the keeper dies, all its processes die with it: each gets its
// on_end, and the next start() starts another keeper.
class KeeperLink {
 public:
  KeeperLink(ProcessExecutor executor, std::shared_ptr<spdlog::logger> log);
  // Kills all processes, without reports, and waits for the keeper's end: a few seconds at most,
  // after which it kills the keeper, too.
  ~KeeperLink();
  KeeperLink(const KeeperLink&) = delete;
  KeeperLink& operator=(const KeeperLink&) = delete;

  // Call it before this process gives up root, and before the loop's thread starts. Starts the
  // keeper at once, which stays root and runs programs as these users only. If it dies, it cannot
  // be restarted.
  std::expected<void, std::string> start_as_root(const std::vector<KeeperUser>& users);

  struct Callbacks {
    std::function<void(pid_t)> on_start;  // may be empty
    std::function<void(const ProcessEnd&)> on_end;
  };
  // Starts a program with `descriptors` as its descriptors 0, 1, 2, …; the caller still owns them.
  // on_end is called once, after this function has returned. Returns the number for signal() and
  // forget().
  std::uint64_t start(const SpawnRequest& request, std::span<const int> descriptors, Callbacks callbacks)
      LOCKSLEY_REQUIRES(kProcessThread);
  // Sends the signal to the process and its group. Does nothing if the process has ended.
  void signal(std::uint64_t process, int signal) LOCKSLEY_REQUIRES(kProcessThread);
  // The callbacks of this process will not be called any more.
  void forget(std::uint64_t process) LOCKSLEY_REQUIRES(kProcessThread) { processes_.erase(process); }

 private:
  bool is_running() const LOCKSLEY_REQUIRES(kProcessThread) { return socket_.is_open(); }
  bool start_keeper(const std::string& users = {}) LOCKSLEY_REQUIRES(kProcessThread);
  // Does nothing if the keeper has died: read() notices that.
  void send(const KeeperOrder& order, std::string_view request, std::span<const int> descriptors)
      LOCKSLEY_REQUIRES(kProcessThread);
  // The keeper does not read: ends it.
  void give_up() LOCKSLEY_REQUIRES(kProcessThread);
  void read() LOCKSLEY_REQUIRES(kProcessThread);
  void handle(const KeeperReport& report) LOCKSLEY_REQUIRES(kProcessThread);
  void keeper_died() LOCKSLEY_REQUIRES(kProcessThread);
  void fail_later(std::uint64_t process, std::string why) LOCKSLEY_REQUIRES(kProcessThread);

  const ProcessExecutor executor_;
  const std::shared_ptr<spdlog::logger> log_;
  ProcessDescriptor socket_ LOCKSLEY_GUARDED_BY(kProcessThread);
  pid_t keeper_ LOCKSLEY_GUARDED_BY(kProcessThread) = -1;
  // The keeper is root and this process is not: it cannot start another one.
  bool is_irreplaceable_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  std::array<char, 64 * sizeof(KeeperReport)> received_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::size_t received_size_ LOCKSLEY_GUARDED_BY(kProcessThread) = 0;
  std::uint64_t last_process_ LOCKSLEY_GUARDED_BY(kProcessThread) = 0;
  struct Process {
    Callbacks callbacks;
    std::string program;  // for messages
  };
  std::unordered_map<std::uint64_t, Process> processes_ LOCKSLEY_GUARDED_BY(kProcessThread);
  // Posted functions may run after the link has been destroyed: they hold this weakly, and check
  // it.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace locksley::daemon
