// Accepts the connections of a port.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/net/bound_port.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// A socket that accepts connections.
//
// Owned by the Server, or the port for remote workers; one thread only, that of the io_context.
// Nothing blocks. When the process runs out of descriptors, new connections are delayed, and the
// log says so once a minute.
class Listener {
 public:
  static constexpr int kBacklog = 511;  // as Redis; the kernel cuts it at net.core.somaxconn

  Listener(asio::io_context& io, std::shared_ptr<spdlog::logger> log);

  // Begins to accept; `accepted` gets each connection. The error names the address and the
  // system's reason.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(BoundPort port,
                                                             std::function<void(Socket)> accepted);
  // After this call `accepted` gets no connection, not even one that the kernel has already
  // accepted.
  void close();

 private:
  void accept_next();

  Acceptor acceptor_;
  Timer pause_;
  const std::shared_ptr<spdlog::logger> log_;
  RateGate refused_{std::chrono::minutes(1)};
  std::function<void(Socket)> accepted_;
};

// Whether the address is one of this machine only.
bool is_loopback(const asio::ip::address& address);

}  // namespace locksley::daemon
