#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/network/network_threads.h"

namespace locksley::daemon {

// Counts the calls.
struct Owner final : RelayOwner {
  void socket_is_ready() override { ++calls; }
  int calls = 0;
};

// The test's own thread is the I/O thread. The peer is the other end of a socket; it does not
// block.
class NetworkThreadsTest : public ::testing::Test {
 protected:
  NetworkThreadsTest() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets_.data()), 0);
    kIoThread.assert_held();
    EXPECT_TRUE(network_.start().has_value());
  }
  ~NetworkThreadsTest() override {
    kIoThread.assert_held();
    end_.reset();
    network_.stop();
    ::close(peer());
  }

  void take_over(std::unique_ptr<TlsChannel> tls = nullptr) LOCKSLEY_REQUIRES(kIoThread) {
    end_ = network_.take_over(sockets_[0], std::move(tls), owner_);
    end_->set_line(line_of_tenant(0));
  }
  int peer() const { return sockets_[1]; }
  // Runs what is posted to the I/O thread until `done()`.
  template <class Done>
  void wait_for(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      io_.run_one_for(std::chrono::milliseconds(1));
    }
  }
  // What the connection receives until it is `most` bytes long, or at its end.
  std::string receive(std::size_t most) LOCKSLEY_REQUIRES(kIoThread) {
    std::string all;
    std::array<std::byte, 1000> space;
    wait_for([&] {
      kIoThread.assert_held();
      if (!end_->may_have_input()) end_->await_input();
      while (end_->may_have_input() && all.size() < most && !is_end_) {
        const auto got = end_->receive(std::span(space).first(std::min(space.size(), most - all.size())));
        all.append(reinterpret_cast<const char*>(space.data()), got.bytes);
        is_end_ = got.is_end;
      }
      return all.size() == most || is_end_;
    });
    return all;
  }
  std::optional<std::size_t> send(std::string_view bytes) LOCKSLEY_REQUIRES(kIoThread) {
    const std::array views{bytes};
    return end_->send(views);
  }
  // All of it, as room comes.
  void send_all(std::string_view bytes) LOCKSLEY_REQUIRES(kIoThread) {
    const std::size_t sent = send(bytes).value();
    if (sent != bytes.size()) unsent_ = bytes.substr(sent);
  }
  // Bytes that the socket had room for.
  std::size_t peer_says(std::string_view bytes) {
    const ssize_t sent = ::send(peer(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }
  // What the peer hears until it is `most` bytes long, or at its end.
  std::string peer_hears(std::size_t most) LOCKSLEY_REQUIRES(kIoThread) {
    std::string all;
    bool is_end = false;
    wait_for([&] {
      kIoThread.assert_held();
      if (!unsent_.empty()) unsent_.remove_prefix(send(unsent_).value());
      std::array<char, 4096> space;
      for (ssize_t got = 1; got > 0 && all.size() < most;) {
        got = ::recv(peer(), space.data(), std::min(space.size(), most - all.size()), 0);
        if (got > 0) all.append(space.data(), static_cast<std::size_t>(got));
        is_end = got == 0 || (got < 0 && errno != EAGAIN);
      }
      return all.size() == most || is_end;
    });
    return all;
  }
  static std::string numbers(std::size_t bytes) {
    std::string text;
    for (int i = 0; text.size() < bytes; ++i) text += std::to_string(i) + ' ';
    text.resize(bytes);
    return text;
  }

  const ThreadRoleScope role_{kIoThread};
  asio::io_context io_{1};
  asio::executor_work_guard<IoExecutor> work_{io_.get_executor()};
  NetworkThreads network_{io_.get_executor(), 2, [] { return false; }};
  std::array<int, 2> sockets_{-1, -1};
  Owner owner_;
  std::unique_ptr<RelayEnd> end_;
  std::string_view unsent_;  // what is yet to be sent, with the room for it
  bool is_end_ = false;
};

}  // namespace locksley::daemon
