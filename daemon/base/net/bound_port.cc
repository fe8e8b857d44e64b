#include "daemon/base/net/bound_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/address.hpp>
#include <cerrno>
#include <string_view>
#include <system_error>

namespace locksley::daemon {
namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace

std::expected<BoundPort, std::string> BoundPort::bind(const std::string& address, std::uint16_t port,
                                                      std::string_view key) {
  const auto failed = [&](std::string_view step, const std::string& reason, const std::string& advice = "") {
    return std::unexpected(fmt::format("cannot {} {} port {}: {}{}", step, address, port, reason, advice));
  };
  asio::error_code error;
  const asio::ip::address ip = asio::ip::make_address(address, error);
  if (error) return failed("understand the address", error.message());
  asio::ip::tcp::endpoint endpoint(ip, port);
  BoundPort bound(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), endpoint);
  if (bound.socket_ < 0) return failed("open a socket for", reason_of(errno));
  const int yes = 1;
  ::setsockopt(bound.socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(bound.socket_, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
    const int reason = errno;
    const bool is_taken = reason == EADDRINUSE;
    return failed(
        "listen on", reason_of(reason),
        is_taken ? fmt::format(": does another daemon run? The key `{}` says where this one listens", key)
                 : "");
  }
  socklen_t size = static_cast<socklen_t>(bound.endpoint_.capacity());
  if (::getsockname(bound.socket_, bound.endpoint_.data(), &size) != 0) {
    return failed("listen on", reason_of(errno));
  }
  bound.endpoint_.resize(size);
  return bound;
}

BoundPort::~BoundPort() {
  if (socket_ >= 0) ::close(socket_);
}

std::expected<BoundPort, std::string> BoundPort::duplicate() const {
  BoundPort other(::fcntl(socket_, F_DUPFD_CLOEXEC, 0), endpoint_);
  if (other.socket_ < 0) return std::unexpected(reason_of(errno));
  return other;
}

}  // namespace locksley::daemon
