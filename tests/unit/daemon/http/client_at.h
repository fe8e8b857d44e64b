#pragma once

// A client of a server in the test's own process, at one of several addresses.

#include <sys/socket.h>
#include <sys/time.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstddef>
#include <string>
#include <system_error>

namespace locksley::daemon {

// Addresses of clients. Linux has all of them on loopback.
inline constexpr const char* kHere = "127.0.0.1";
inline constexpr const char* kThere = "127.0.0.2";
inline constexpr const char* kElsewhere = "127.0.0.3";

// Blocking. It sends a request, and reads no more than the test says: the kernel takes in
// kReceiveBuffer besides. A read that gets nothing fails after 60 s, so that a server that hangs
// fails the test.
class ClientAt {
 public:
  static constexpr int kReceiveBuffer = 4096;

  ClientAt(const char* address, const asio::ip::tcp::endpoint& server, const std::string& request)
      : socket_(io_, asio::ip::tcp::v4()) {
    socket_.set_option(asio::socket_base::receive_buffer_size(kReceiveBuffer));
    socket_.bind({asio::ip::make_address(address), 0});
    socket_.connect(server);
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    send(request);
  }
  void send(const std::string& bytes) {
    std::error_code error;  // the server may have closed already
    asio::write(socket_, asio::buffer(bytes), error);
  }
  // Throws if the server closes before.
  void read(std::size_t bytes) {
    std::string block(bytes, '\0');
    asio::read(socket_, asio::buffer(block));
  }
  std::string read_to_end() {
    std::string all;
    std::error_code error;
    asio::read(socket_, asio::dynamic_buffer(all), error);
    return all;
  }
  // All that comes for a request on a connection of its own.
  static std::string ask(const char* address, const asio::ip::tcp::endpoint& server,
                         const std::string& request) {
    return ClientAt(address, server, request).read_to_end();
  }

 private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_;
};

}  // namespace locksley::daemon
