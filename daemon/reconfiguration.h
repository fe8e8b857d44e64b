// From one configuration to another while the daemon serves.
#pragma once

#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/auto_limits.h"
#include "config/config.h"
#include "config/reload.h"
#include "core/pool/pool.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/machine/pool_resizer.h"
#include "daemon/config_source.h"
#include "daemon/handler_set.h"
#include "daemon/server/state/config_changes.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class LiveHandlers;
class SchedulerMetrics;
class Server;

// Puts another configuration in force, all of it or nothing: reads it, has each part prepare for
// it, and only if all parts agree has them commit it. One at a time, in the order of the requests.
// Starting isolated plugins takes long, and has a thread of its own, while the daemon serves.
//
// Owned by main(); all parts outlive it. The I/O thread only. Nothing blocks but what loading a
// plugin blocks. A configuration with a problem changes nothing; the request gets the problems.
// Requests that wait when it is destroyed get no answer.
class Reconfiguration {
 public:
  using Result = ConfigChanges::Result;
  using Done = ConfigChanges::Done;

  struct Parts {
    asio::io_context& io;
    Pool& pool;
    Server& server;
    HandlerSet& handlers;
    LiveHandlers& live_handlers;
    SchedulerMetrics& metrics;
    config::Machine machine;  // as it was at the start
    std::shared_ptr<spdlog::logger> log;
  };

  Reconfiguration(Parts parts, ConfigSource source);
  ~Reconfiguration();
  Reconfiguration(const Reconfiguration&) = delete;
  Reconfiguration& operator=(const Reconfiguration&) = delete;

  // Adds a part that has a say in every configuration. `prepare` gets the one that would be in
  // force, changes nothing, and returns a function that commits it, or the problems.
  using Commit = std::move_only_function<void()>;
  using Prepare = std::function<std::expected<Commit, std::vector<std::string>>(const config::Config&)>;
  void add_part(Prepare prepare) { parts_to_ask_.push_back(std::move(prepare)); }

  // Reads the file again.
  void reload(Done done) LOCKSLEY_REQUIRES(kIoThread);
  // Sets these values until the file is read again.
  void set(ConfigChanges::Values values, Done done) LOCKSLEY_REQUIRES(kIoThread);

 private:
  struct Request {
    bool is_by_client;  // a client gets the problems, so that they need not be logged
    std::function<std::expected<config::Reload, std::vector<std::string>>()> read;
    Done done;
  };
  // The thread's way back to this object, if it still exists.
  struct Mailbox;

  std::expected<config::Reload, std::vector<std::string>> read_file() const LOCKSLEY_REQUIRES(kIoThread);
  std::expected<config::Reload, std::vector<std::string>> read_values(
      const ConfigChanges::Values& values) const LOCKSLEY_REQUIRES(kIoThread);
  void ask(Request request) LOCKSLEY_REQUIRES(kIoThread);
  void begin_next() LOCKSLEY_REQUIRES(kIoThread);
  void prepared(config::Reload reload, std::expected<HandlerChanges, HandlerProblems> changes)
      LOCKSLEY_REQUIRES(kIoThread);
  void take(const config::Reload& reload, HandlerChanges changes, std::vector<Commit> commits)
      LOCKSLEY_REQUIRES(kIoThread);
  std::uint32_t workers_of(const config::Config& config) const;
  // With that of `exec`.
  std::map<std::string, config::Handler> handlers_of(const config::Config& config) const;
  void end(const Result& result);

  const Parts parts_;
  const ConfigSource source_;
  std::vector<Prepare> parts_to_ask_;
  std::deque<Request> requests_;  // the first is being served
  std::shared_ptr<Mailbox> mailbox_;
  PoolResizer pool_resizer_;
};

}  // namespace locksley::daemon
