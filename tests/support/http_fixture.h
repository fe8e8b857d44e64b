#pragma once

// An HTTP server in the test's own process, on a thread of its own, and a client that talks to it
// over loopback.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/http/server.h"

namespace locksley::daemon {

// A blocking client. A read that gets nothing fails after 60 s, so that a server that hangs fails
// the test.
class HttpClient {
 public:
  // `receive_buffer`: bytes that the kernel takes in before the program reads; 0: as many as it
  // likes.
  explicit HttpClient(const asio::ip::tcp::endpoint& server, int receive_buffer = 0)
      : socket_(io_, asio::ip::tcp::v4()) {
    if (receive_buffer > 0) socket_.set_option(asio::socket_base::receive_buffer_size(receive_buffer));
    socket_.connect(server);
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  void send(const std::string& bytes) {
    std::error_code error;  // the server may have closed already
    asio::write(socket_, asio::buffer(bytes), error);
  }
  // All bytes until the server closes; if the connection ended in an error instead of an orderly
  // close, the error follows in brackets.
  std::string read_to_end() {
    std::string all = std::move(rest_);
    std::array<char, 4096> block;
    for (;;) {
      std::error_code error;
      const std::size_t count = socket_.read_some(asio::buffer(block), error);
      all.append(block.data(), count);
      if (error == asio::error::eof) return all;
      if (error) return all + "[" + error.message() + "]";
    }
  }
  void read_first_byte() {
    if (rest_.empty()) read_more();
  }
  // Reads one reply with its body; with `kHeadAlone` only a head, as of status 100.
  enum class Has { kBody, kHeadAlone };
  std::string read_reply(Has has = Has::kBody) {
    while (rest_.find("\r\n\r\n") == std::string::npos) read_more();
    const std::size_t head = rest_.find("\r\n\r\n") + 4;
    const std::size_t length = rest_.find("Content-Length: ");
    const std::size_t size = has == Has::kHeadAlone ? head : head + std::stoul(rest_.substr(length + 16));
    while (rest_.size() < size) read_more();
    std::string reply = rest_.substr(0, size);
    rest_.erase(0, size);
    return reply;
  }

 private:
  void read_more() {
    std::array<char, 4096> block;
    rest_.append(block.data(), socket_.read_some(asio::buffer(block)));
  }

  asio::io_context io_;
  asio::ip::tcp::socket socket_;
  std::string rest_;
};

// A fixture with an HTTP server: the test adds pages to the router, and the server replies from
// start() on.
class HttpServerFixture : public ::testing::Test {
 protected:
  ~HttpServerFixture() override {
    if (server_) server_->stop();
    if (thread_.joinable()) thread_.join();  // returns because nothing is left to do
  }

  asio::ip::tcp::endpoint start(HttpLimits limits = {}) {
    const asio::ip::tcp::endpoint endpoint = listen(limits);
    run();
    return endpoint;
  }
  // start() in two steps: bytes that a client sends before run() have arrived when the server
  // begins its connection and its time limits.
  asio::ip::tcp::endpoint listen(HttpLimits limits) {
    server_.emplace(io_, router_, limits);
    const auto endpoint = server_->listen("127.0.0.1", 0);
    if (!endpoint) throw std::runtime_error(endpoint.error());
    return *endpoint;
  }
  void run() {
    thread_ = std::thread([this] {
      const ThreadRoleScope io_thread(kIoThread);
      io_.run();
    });
  }
  static std::string ask(const asio::ip::tcp::endpoint& server, const std::string& bytes) {
    HttpClient client(server);
    client.send(bytes);
    return client.read_to_end();
  }

  asio::io_context io_;
  Router router_;
  std::optional<HttpServer> server_;
  std::thread thread_;
};

}  // namespace locksley::daemon
