// The life of the daemon that serves, from ready to the last connection.
#pragma once

#include <asio/signal_set.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "core/pool/pool.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Health;
class HttpServer;
class HandlerLanes;
class Reconfiguration;
class Server;
class Upstream;
class WorkerPort;

// The daemon as its operator and systemd see it. Reports that it is ready and, if systemd asks for
// it, that it is alive; drains and ends on SIGTERM and SIGINT, reads its configuration again on
// SIGHUP.
//
//   serving  --TERM/INT-->  draining
//   draining  --nothing left, or shutdown.drain_timeout-->  closing
//   closing  --no connection left-->  run() returns
//
// A second TERM or INT goes to closing at once.
//
// Owned by serve_until_signal() (main.cc); all parts outlive it. The I/O thread only, which is the
// one that calls run(). Only run() blocks: until the daemon ends.
class Service {
 public:
  struct Parts {
    asio::io_context& io;
    Pool& pool;
    Server& server;
    HttpServer& http;
    HandlerLanes& processes;
    WorkerPort& workers;
    Health& health;
    Reconfiguration& reconfiguration;
    Upstream* upstream;  // null: none
    std::shared_ptr<spdlog::logger> log;
  };

  explicit Service(Parts parts);

  // Writes `ready_line` to standard output and serves until a signal ends it. Returns the exit
  // code.
  int run(const std::string& ready_line);

 private:
  void wait_for_signal();
  void start_watchdog();
  void feed_watchdog();
  void begin_drain() LOCKSLEY_REQUIRES(kIoThread);
  // The server, or the upstream's part, has nothing left.
  void part_is_drained() LOCKSLEY_REQUIRES(kIoThread);
  void begin_close(int exit_code, const char* why) LOCKSLEY_REQUIRES(kIoThread);
  void reload() LOCKSLEY_REQUIRES(kIoThread);
  void log_what_is_left() LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  asio::basic_signal_set<IoExecutor> signals_;
  Timer drain_timer_;
  Timer watchdog_timer_;  // armed only if systemd asks for it
  std::chrono::microseconds watchdog_interval_{};
  bool draining_ = false;
  int parts_to_drain_ = 0;
  bool closing_ = false;
  int exit_code_ = 0;
};

}  // namespace locksley::daemon
