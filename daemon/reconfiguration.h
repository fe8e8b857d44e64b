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
// Reading and comparing configurations with thousands of users takes long, and so does starting
// isolated plugins: each is done on a thread of its own, while the daemon serves.
//
// Owned by serve_until_signal() (main.cc); all parts outlive it. The I/O thread only. Nothing
// blocks but what loading a plugin blocks. A configuration with a problem changes nothing; the
// request gets the problems. Requests that wait when it is destroyed get no answer.
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

  Reconfiguration(Parts parts, ConfigSource source) LOCKSLEY_REQUIRES(kIoThread);
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
  using Problems = std::vector<std::string>;
  struct Request {
    bool is_by_client;  // a client gets the problems, so that they need not be logged
    // Called by another thread.
    std::function<std::expected<config::Reload, Problems>(const config::Config& current)> read;
    Done done;
  };
  // What that thread has made of a request.
  struct Found {
    config::Reload reload;
    std::shared_ptr<const config::Config> copy;  // of reload.effective
    config::ChangedParts parts;
    std::expected<HandlerChanges, HandlerProblems> changes;
  };
  // The thread's way back to this object, if it still exists.
  struct Mailbox;

  // `work` runs on a thread that is not joined: it may wait for a plugin that hangs, and that must
  // not keep the process from ending. Without a thread the request ends.
  void on_thread(std::move_only_function<void()> work) LOCKSLEY_REQUIRES(kIoThread);
  void ask(Request request) LOCKSLEY_REQUIRES(kIoThread);
  void begin_next() LOCKSLEY_REQUIRES(kIoThread);
  void prepared(Found found) LOCKSLEY_REQUIRES(kIoThread);
  void refuse(Problems problems) LOCKSLEY_REQUIRES(kIoThread);
  void take(Found found, std::vector<Commit> commits) LOCKSLEY_REQUIRES(kIoThread);
  void end(const Result& result);

  const Parts parts_;
  const ConfigSource source_;
  std::vector<Prepare> parts_to_ask_;
  std::deque<Request> requests_;                   // the first is being served
  std::shared_ptr<const config::Config> current_;  // what is in force, for the thread
  std::shared_ptr<Mailbox> mailbox_;
  PoolResizer pool_resizer_;
};

}  // namespace locksley::daemon
