// SIGHUP before the daemon listens for it.
#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <csignal>

namespace locksley::daemon {

// While it lives, a SIGHUP does not end the process. One that arrives while no part takes signals,
// at the start or the end of the daemon, waits for the part that takes them next; at the end there
// may be none. Otherwise a SIGHUP during the start would end the daemon, and systemd would not
// restart it, because it counts that as a clean exit.
//
// In main(), around the parts. Uses no thread and nothing of the loop.
class KeptHangups {
 public:
  KeptHangups() = default;
  KeptHangups(const KeptHangups&) = delete;
  KeptHangups& operator=(const KeptHangups&) = delete;

 private:
  // Never run. Asio gives a signal that came meanwhile to the first loop that runs with a
  // signal_set, and keeps its handler until the last signal_set is gone, which is this one.
  asio::io_context io_{1};
  asio::signal_set signals_{io_, SIGHUP};
};

}  // namespace locksley::daemon
