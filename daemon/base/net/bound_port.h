// A TCP port that is taken before anything listens on it.
#pragma once

#include <unistd.h>

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace locksley::daemon {

// A TCP port that this process has taken, and on which it does not listen yet: clients are refused,
// and the address is known. The server that gets the port listens on it. Several servers can listen
// one after the other, each on a duplicate: clients that connect after one server has ended and
// before the next one begins wait in the kernel's queue.
//
// A value that owns a descriptor; any thread. Nothing blocks.
class BoundPort {
 public:
  // `port` 0: any free one. `key`: the configuration key that sets the port. The error names the
  // address and the system's reason, and the key if another program has the port.
  static std::expected<BoundPort, std::string> bind(const std::string& address, std::uint16_t port,
                                                    std::string_view key);
  ~BoundPort();
  BoundPort(BoundPort&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), endpoint_(other.endpoint_) {}
  BoundPort& operator=(BoundPort&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(endpoint_, other.endpoint_);
    return *this;
  }

  const asio::ip::tcp::endpoint& endpoint() const { return endpoint_; }
  // Another descriptor of the same port. The error is the system's reason: no descriptor is left.
  std::expected<BoundPort, std::string> duplicate() const;
  // The descriptor, which the caller owns from now on.
  int release() && { return std::exchange(socket_, -1); }

 private:
  BoundPort(int socket, asio::ip::tcp::endpoint endpoint) : socket_(socket), endpoint_(std::move(endpoint)) {}

  int socket_;
  asio::ip::tcp::endpoint endpoint_;
};

// Closes an acceptor whose socket may have a duplicate elsewhere. The socket first leaves the epoll
// set of its io_context: otherwise the duplicate would keep it there.
template <class Acceptor>
void close_acceptor(Acceptor& acceptor) {
  asio::error_code error;
  if (!acceptor.is_open()) return;
  const int descriptor = acceptor.release(error);
  if (!error) ::close(descriptor);
}

}  // namespace locksley::daemon
