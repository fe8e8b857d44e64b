#include "daemon/base/net/listener.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/net/endpoint_text.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

Listener::Listener(asio::io_context& io, std::shared_ptr<spdlog::logger> log)
    : acceptor_(io), pause_(io), log_(std::move(log)) {}

std::expected<asio::ip::tcp::endpoint, std::string> Listener::listen(BoundPort port,
                                                                     std::function<void(Socket)> accepted) {
  const asio::ip::tcp::endpoint endpoint = port.endpoint();
  accepted_ = std::move(accepted);
  asio::error_code error;
  acceptor_.assign(endpoint.protocol(), std::move(port).release(), error);
  if (!error) acceptor_.listen(kBacklog, error);
  if (error) {
    acceptor_.close();
    return std::unexpected(fmt::format("cannot listen on {}: {}", to_text(endpoint), error.message()));
  }
  accept_next();
  return endpoint;
}

void Listener::accept_next() {
  acceptor_.async_accept([this](const asio::error_code& error, Socket socket) {
    // A connection may have been accepted just before close(), and Asio may call this function
    // after it: then the connection is closed.
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (!error) {
      accepted_(std::move(socket));
      accept_next();
      return;
    }
    if (refused_.open(now())) {
      LogLine("cannot accept a connection")
          .with("reason", error.message())
          .with("unlogged", refused_.held_back())
          .write(*log_, spdlog::level::warn);
    }
    pause_.expires_after(std::chrono::milliseconds(100));  // guess: until a descriptor is free
    pause_.async_wait([this](const asio::error_code& stopped) {
      if (!stopped) accept_next();
    });
  });
}

void Listener::close() {
  close_acceptor(acceptor_);
  pause_.cancel();
}

bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

}  // namespace locksley::daemon
