// The socket that accepts connections.
#include "daemon/base/net/listener.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <memory>
#include <utility>

namespace locksley::daemon {
namespace {

TEST(ListenerTest, GivesNoConnectionAfterItWasClosed) {
  asio::io_context io(1);
  Listener listener(io, std::make_shared<spdlog::logger>("test"));
  auto port = BoundPort::bind("127.0.0.1", 0, "listen.port");
  ASSERT_TRUE(port) << port.error();
  int accepted = 0;
  // With the first connection, a handler that closes the listener is queued. The second connection
  // is accepted at once, since it waits already: its handler comes after that one.
  const auto bound = listener.listen(*std::move(port), [&](const Socket&) {
    ++accepted;
    asio::post(io, [&listener] { listener.close(); });
  });
  ASSERT_TRUE(bound) << bound.error();
  asio::io_context clients;
  asio::ip::tcp::socket first(clients);
  asio::ip::tcp::socket second(clients);
  first.connect(*bound);
  second.connect(*bound);
  io.poll();  // both connections wait already
  EXPECT_EQ(accepted, 1);
}

}  // namespace
}  // namespace locksley::daemon
