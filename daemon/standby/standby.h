// A daemon that stands by: it waits until it may take over, and answers meanwhile.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/config.h"
#include "core/sync/mutex.h"
#include "daemon/auth/secret.h"
#include "daemon/base/net/bound_port.h"
#include "daemon/store/cluster_board.h"
#include "daemon/tls/context.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// The ports of a daemon while another one is active, and while this one reads the batches that it
// has taken over; and its messages to the operator and to systemd in that time. README.md has the
// steps.
//
// A member of StoreParts (daemon/parts.h). All members are called on main's thread. The first
// wait() starts a thread, which has all that serves connections, and ends with them soon after
// hand_over(). A daemon that never waits costs nothing here. wait() blocks for the time that it is
// given, the destructor until the connections have ended, about a second at most; nothing else
// blocks for long.
class Standby {
 public:
  struct Parts {
    const config::Config& config;
    // Bound, and not listening; those of the active daemon, which gets the same ones later.
    const BoundPort& http;
    const BoundPort& listen;
    const std::optional<BoundPort>& workers;  // none: no handler is for remote workers
    std::string workers_at;                   // where workers connect
    TlsContexts tls;
    std::optional<Secret> http_token;  // none: no token is accepted
    std::shared_ptr<ClusterBoard> cluster;
    std::string version;
    std::shared_ptr<spdlog::logger> log;
  };

  explicit Standby(Parts parts);
  ~Standby();
  Standby(const Standby&) = delete;
  Standby& operator=(const Standby&) = delete;

  // Another daemon is active: waits, and serves meanwhile. False: the daemon was told to end. The
  // first call opens the ports, says so on standard output ("standby listen=… http=…", "…
  // workers=…") and to systemd, and takes the signals. If that fails, the error is a sentence.
  std::expected<bool, std::string> wait(std::chrono::milliseconds time) LOCKSLEY_EXCLUDES(mutex_);
  // Whether wait() has returned false.
  bool is_told_to_end() const LOCKSLEY_EXCLUDES(mutex_);

  // This daemon serves by itself from now on: once it returns, the ports are free to listen on, no
  // connection that was open executes anything any more, and signals have the effect that they had
  // before. Without effect if wait() was never called.
  void hand_over();
  // After hand_over(), once the serving parts take the signals: sends them those that arrived
  // before: a SIGTERM or SIGINT after the last wait(), and a SIGHUP.
  void resend_signals() LOCKSLEY_EXCLUDES(mutex_);

 private:
  class Desk;

  // The thread, from beginning to end. Calls `opened` once, with the reason if it cannot serve.
  void run(const std::function<void(std::string)>& opened);
  void take_signal(int signal) LOCKSLEY_EXCLUDES(mutex_);
  bool is_to_end() const LOCKSLEY_REQUIRES(mutex_);

  Parts parts_;
  asio::io_context io_{1};  // run by the thread
  Desk* desk_ =
      nullptr;  // on the thread's stack; for tasks that are posted to it. Set before wait() returns first

  mutable Mutex mutex_;
  CondVar signalled_;
  bool has_ended_waiting_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::vector<int> signals_ LOCKSLEY_GUARDED_BY(mutex_);  // that came, each once
  std::thread thread_;
};

}  // namespace locksley::daemon
