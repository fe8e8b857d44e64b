#pragma once

#include <asio/signal_set.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "core/pool.h"
#include "daemon/server/io.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Health;
class HttpServer;
class Reconfiguration;
class Server;

// The daemon as its operator and systemd see it: says when it is ready and, if systemd watches, that it is
// alive; drains and ends on signals, re-reads its configuration on another.
//
//   serving --TERM/INT--> draining --nothing left, or shutdown.drain_timeout--> closing --no connection
//   left--> run() returns
// A second TERM or INT goes to closing at once.
//
// Owned by main(); all parts outlive it. Everything runs on the thread that calls run().
class Service {
 public:
  struct Parts {
    asio::io_context& io;
    Pool& pool;
    Server& server;
    HttpServer& http;
    Health& health;
    Reconfiguration& reconfiguration;
    std::shared_ptr<spdlog::logger> log;
  };

  explicit Service(Parts parts);

  // Serves until a signal ends it; `ready_line` goes to standard output first. Returns the exit code.
  int run(const std::string& ready_line);

 private:
  void wait_for_signal();
  void start_watchdog();
  void feed_watchdog();
  void begin_drain();
  void begin_close(int exit_code, const char* why);
  void reload();
  void log_what_is_left();

  const Parts parts_;
  asio::basic_signal_set<IoExecutor> signals_;
  Timer drain_timer_;
  Timer watchdog_timer_;  // never armed unless systemd asks for signs of life
  std::chrono::microseconds watchdog_interval_{};
  bool draining_ = false;
  bool closing_ = false;
  int exit_code_ = 0;
};

}  // namespace locksley::daemon
