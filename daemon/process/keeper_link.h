// The daemon's side of the keeper: starts it, gives it orders, hears its reports.
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

#include "daemon/process/keeper.h"
#include "daemon/process/process_io.h"
#include "daemon/process/spawn_request.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// How a process ended, or that it never began.
struct ProcessEnd {
  bool has_started = true;
  std::string why;         // has_started false: a sentence for the operator
  bool has_exited = true;  // else signal `status` ended it
  int status = 0;
  std::int64_t cpu_us = 0;
  std::int64_t memory_kib = 0;
};

// Owned by the ProcessLoop; everything on its thread. Should the keeper die, all processes die with it, which
// is reported as their end, and another takes its place.
class KeeperLink {
 public:
  KeeperLink(ProcessExecutor executor, std::shared_ptr<spdlog::logger> log);
  // All processes are killed, without a report.
  ~KeeperLink();
  KeeperLink(const KeeperLink&) = delete;
  KeeperLink& operator=(const KeeperLink&) = delete;

  // Before the process gives up root: the keeper is started now, and stays root, to run programs as these
  // users and as nobody else. Should it die, no other can take its place.
  std::expected<void, std::string> start_as_root(const std::vector<KeeperUser>& users);

  struct Callbacks {
    std::function<void(pid_t)> on_start;  // may be empty
    std::function<void(const ProcessEnd&)> on_end;
  };
  // Starts a program whose descriptors 0, 1, 2, … are to be these, which the caller keeps. One of the
  // callbacks on_end comes later, never from within. Returns the number for signal() and forget().
  std::uint64_t start(const SpawnRequest& request, std::span<const int> descriptors, Callbacks callbacks);
  // To the process and its group; nothing if it has ended.
  void signal(std::uint64_t process, int signal);
  // Its callbacks are not called any more.
  void forget(std::uint64_t process) { processes_.erase(process); }

 private:
  bool is_there() const { return socket_.is_open(); }
  bool start_keeper(const std::string& users = {});
  // If the keeper has gone, nothing: read() hears of it.
  void send(const KeeperOrder& order, std::string_view request, std::span<const int> descriptors);
  void read();
  void take(const KeeperReport& report);
  void keeper_died();
  void fail_later(std::uint64_t process, std::string why);

  const ProcessExecutor executor_;
  const std::shared_ptr<spdlog::logger> log_;
  ProcessDescriptor socket_;
  pid_t keeper_ = -1;
  bool is_irreplaceable_ = false;  // it is root, and this process is not
  std::array<char, 64 * sizeof(KeeperReport)> received_;
  std::size_t received_size_ = 0;
  std::uint64_t last_process_ = 0;
  std::unordered_map<std::uint64_t, Callbacks> processes_;
  // Outlived by what is posted.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace locksley::daemon
