// From one configuration to another while the daemon serves.
#pragma once

#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "config/config.h"
#include "config/reload.h"
#include "core/pool.h"
#include "daemon/handler_set.h"
#include "daemon/server/config_changes.h"
#include "daemon/server/io.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class LiveHandlers;
class SchedulerMetrics;
class Server;

// Puts another configuration in force, all of it or nothing: reads it, has everybody who has to do with it
// prepare, and only when nobody objects has them take it. One at a time, in the order in which they are asked
// for. What takes long (isolated plugins are tried out) has a thread of its own, while the daemon serves on.
//
// Owned by main(); all parts outlive it. The I/O thread only. What waits when it is destroyed never comes.
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
    std::shared_ptr<spdlog::logger> log;
  };

  Reconfiguration(Parts parts, std::string config_file);
  ~Reconfiguration();
  Reconfiguration(const Reconfiguration&) = delete;
  Reconfiguration& operator=(const Reconfiguration&) = delete;

  // One more who has to do with the configuration: is asked with what would be in force, changes nothing, and
  // returns what puts it in force, or what is wrong with it. At every change, whether it concerns him or not.
  using Commit = std::move_only_function<void()>;
  using Prepare = std::function<std::expected<Commit, std::vector<std::string>>(const config::Config&)>;
  void add_part(Prepare prepare) { parts_to_ask_.push_back(std::move(prepare)); }

  // The file is read again.
  void reload(Done done);
  // These values, until the file is read again.
  void set(ConfigChanges::Values values, Done done);

 private:
  struct Request {
    bool is_by_client;  // who hears of problems, so that they need not be in the log
    std::function<std::expected<config::Reload, std::vector<std::string>>()> read;
    Done done;
  };
  // Where the thread leaves what it has made, if there is somebody yet.
  struct Mailbox;

  std::expected<config::Reload, std::vector<std::string>> read_file() const;
  std::expected<config::Reload, std::vector<std::string>> read_values(
      const ConfigChanges::Values& values) const;
  void ask(Request request);
  void begin_next();
  void prepared(config::Reload reload, std::expected<HandlerChanges, HandlerProblems> changes);
  void take(const config::Reload& reload, HandlerChanges changes, std::vector<Commit> commits);
  void set_workers(const config::Config& config);
  void end(const Result& result);

  const Parts parts_;
  const std::string config_file_;
  std::vector<Prepare> parts_to_ask_;
  std::deque<Request> requests_;  // the first is being dealt with
  std::shared_ptr<Mailbox> mailbox_;
  std::jthread resizing_;
};

}  // namespace locksley::daemon
