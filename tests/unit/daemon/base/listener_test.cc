// The socket that accepts connections.
#include "daemon/base/listener.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace locksley::daemon {
namespace {

TEST(ListenerTest, GivesNoConnectionAfterItWasClosed) {
  asio::io_context io(1);
  Listener listener(io, std::make_shared<spdlog::logger>("test"));
  auto port = BoundPort::bind("127.0.0.1", 0, "listen.port");
  ASSERT_TRUE(port) << port.error();
  int accepted = 0;
  // With the first connection, a handler that closes the listener is queued. The last connection is accepted before it is
  // called, since it waits already: but its handler comes after that one.
  const auto bound = listener.listen(*std::move(port), [&](const Socket&) {
    if (++accepted == 1) asio::post(io, [&listener] { listener.close(); });
  });
  ASSERT_TRUE(bound) << bound.error();
  asio::io_context clients;
  std::vector<asio::ip::tcp::socket> sockets;
  for (int n = 0; n < Listener::kAcceptsAtOnce + 1; ++n) sockets.emplace_back(clients).connect(*bound);
  io.poll();  // all connections wait already
  EXPECT_EQ(accepted, Listener::kAcceptsAtOnce) << "by the first handler";
}

}  // namespace
}  // namespace locksley::daemon
