#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "daemon/rate_gate.h"
#include "daemon/server/io.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// The socket that accepts connections.
//
// Owned by the Server; the I/O thread only. Nothing blocks. Running out of descriptors costs the connections
// that come meanwhile a delay, and a log line.
class Listener {
 public:
  static constexpr int kBacklog = 511;  // as Redis; the kernel cuts it at net.core.somaxconn

  Listener(asio::io_context& io, std::shared_ptr<spdlog::logger> log);

  // Binds and accepts from now on; `accepted` gets each connection. The error names the address and what the
  // system said.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(const std::string& address, std::uint16_t port,
                                                             std::function<void(Socket)> accepted);
  void close();

 private:
  void accept_next();

  Acceptor acceptor_;
  Timer pause_;
  const std::shared_ptr<spdlog::logger> log_;
  RateGate refused_{std::chrono::minutes(1)};
  std::function<void(Socket)> accepted_;
};

// Whether a peer is on this machine.
bool is_loopback(const asio::ip::address& address);

}  // namespace locksley::daemon
