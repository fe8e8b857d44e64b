#include "daemon/base/listener.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <utility>

#include "daemon/base/log_line.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

Listener::Listener(asio::io_context& io, std::shared_ptr<spdlog::logger> log)
    : acceptor_(io), pause_(io), log_(std::move(log)) {}

std::expected<asio::ip::tcp::endpoint, std::string> Listener::listen(const std::string& address,
                                                                     std::uint16_t port,
                                                                     std::function<void(Socket)> accepted) {
  accepted_ = std::move(accepted);
  asio::error_code error;
  const auto failed = [&](std::string_view step) {
    acceptor_.close();
    const std::string_view advice = error == asio::error::address_in_use
                                        ? ": does another daemon run? listen.port says where this one listens"
                                        : "";
    return std::unexpected(
        fmt::format("cannot {} {} port {}: {}{}", step, address, port, error.message(), advice));
  };
  const asio::ip::address ip = asio::ip::make_address(address, error);
  if (error) return failed("understand the address");
  const asio::ip::tcp::endpoint endpoint(ip, port);
  acceptor_.open(endpoint.protocol(), error);
  if (error) return failed("open a socket for");
  acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  acceptor_.bind(endpoint, error);
  if (error) return failed("listen on");
  acceptor_.listen(kBacklog, error);
  if (error) return failed("listen on");
  const auto bound = acceptor_.local_endpoint(error);
  if (error) return failed("listen on");
  accept_next();
  return bound;
}

void Listener::accept_next() {
  acceptor_.async_accept([this](const asio::error_code& error, Socket socket) {
    if (error == asio::error::operation_aborted) return;
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
  asio::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

}  // namespace locksley::daemon
