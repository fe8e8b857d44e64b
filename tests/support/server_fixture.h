#pragma once

// A server in the test's own process, and a client that talks to it over loopback.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spdlog/logger.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "core/pool/pool.h"
#include "core/tasks/context.h"
#include "daemon/auth/authenticator.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/server.h"

namespace locksley::daemon {

// A plain blocking socket, on which every wait has an end.
class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(sent, 0);
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  ssize_t try_send(std::string_view bytes) { return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Exactly n bytes; fewer if the peer closes or the time is up.
  std::string read(std::size_t n) {
    std::string bytes(n, '\0');
    std::size_t got = 0;
    while (got < n) {
      const ssize_t received = ::recv(fd_, bytes.data() + got, n - got, 0);
      if (received < 0 && errno == EINTR) continue;
      if (received <= 0) break;
      got += static_cast<std::size_t>(received);
    }
    bytes.resize(got);
    return bytes;
  }
  std::string line() {
    std::string text;
    for (std::string c = read(1); !c.empty(); c = read(1)) {
      text += c;
      if (text.ends_with("\r\n")) return text.substr(0, text.size() - 2);
    }
    return text + "<closed>";
  }
  std::string bulk() {
    const std::string head = line();
    if (!head.starts_with("$") && !head.starts_with("=")) return head;
    const auto size = static_cast<std::size_t>(std::stoul(head.substr(1)));
    return read(size + 2).substr(0, size);
  }
  std::string ask(std::string_view command) {
    send(std::string(command) + "\r\n");
    return line();
  }
  void finish_sending() { ::shutdown(fd_, SHUT_WR); }
  bool is_closed() { return read(1).empty(); }

 private:
  const int fd_;
};

// Handlers: echo; fail; hold, which holds its worker until the test ends or the job should stop.
class ServerFixture : public ::testing::Test {
 protected:
  ServerFixture() {
    for (const auto* handler : {&echo_, &hold_, &fail_}) {
      handlers_.add(
          {.handler = const_cast<Handler&>(*handler), .lane = lane_, .kind = HandlerKind::kBuiltin});
    }
  }
  ~ServerFixture() override { stop(); }

  // Ends all jobs, connections and threads.
  void stop() {
    release_ = true;
    release_.notify_all();
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      kIoThread.assert_held();
      server_->close([this] { io_.stop(); });
    });
    thread_.join();
    pool_.stop();
    lane_.detach_all();
  }

  void start(const std::function<void(config::Config&)>& change = {}) {
    config::Config config;
    config.listen.port = 0;
    if (change) change(config);
    server_ = std::make_unique<Server>(Server::Parts{.io = io_,
                                                     .tenants = tenants_,
                                                     .handlers = handlers_,
                                                     .lanes = {&lane_},
                                                     .pool = pool_,
                                                     .store = store_,
                                                     .authenticator = authenticator_,
                                                     .log = log_,
                                                     .version = "test"},
                                       config);
    {
      const ThreadRoleScope io_thread(kIoThread);
      if (store_ != nullptr) {
        const auto restored = server_->batches().restore_all();
        ASSERT_TRUE(restored) << restored.error().what;
      }
      const auto endpoint = server_->listen();
      ASSERT_TRUE(endpoint) << endpoint.error();
      port_ = endpoint->port();
    }
    pool_.start(2);
    thread_ = std::thread([this] {
      const ThreadRoleScope io_thread(kIoThread);
      io_.run();
    });
  }
  // The result of `look`, which is called on the I/O thread.
  template <class Look>
  auto on_io_thread(Look look) {
    std::promise<decltype(look())> promise;
    asio::post(io_, [&] { promise.set_value(look()); });
    return promise.get_future().get();
  }

  std::atomic<bool> release_{false};
  Handler echo_{"echo", "", [](JobContext& context, std::string_view payload) { context.write(payload); }};
  // Holds its worker until the test ends, or the job should stop.
  Handler hold_{"hold", "", [this](JobContext& context, std::string_view) {
                  while (!release_ && !context.should_stop()) std::this_thread::yield();
                  if (context.should_stop()) context.give_up();
                }};
  Handler fail_{"fail", "", [](JobContext& context, std::string_view payload) { context.fail(payload); }};
  std::shared_ptr<spdlog::logger> log_ = std::make_shared<spdlog::logger>("test");
  Lane lane_{"cpu", FairRing::Options{.parallelism = 2}};
  Pool pool_{lane_};
  HandlerDirectory handlers_;
  Tenants tenants_;
  asio::io_context io_{1};
  Authenticator authenticator_{io_.get_executor()};
  Store* store_ = nullptr;  // set before start(); the test stops it
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace locksley::daemon
