// Ports that are taken before a server listens on them, and on which one server after the other
// listens.
#include "daemon/base/net/bound_port.h"

#include <gmock/gmock.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "daemon/base/net/listener.h"

namespace locksley::daemon {
namespace {

using asio::ip::tcp;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BoundPortTest : public ::testing::Test {
 protected:
  static BoundPort bind() {
    auto port = BoundPort::bind("127.0.0.1", 0, "listen.port");
    if (!port) throw std::runtime_error(port.error());
    return *std::move(port);
  }
  // The reason if it cannot.
  asio::error_code connect(const BoundPort& port) {
    asio::error_code error;
    client.connect(tcp::endpoint(port.endpoint()), error);
    return error;
  }

  asio::io_context io;
  tcp::socket client{io};
};

TEST_F(BoundPortTest, ClientsAreRefusedUntilAServerListens) {
  const BoundPort port = bind();
  EXPECT_NE(port.endpoint().port(), 0);
  EXPECT_EQ(connect(port), asio::error::connection_refused);
  Listener server(io, nullptr);
  ASSERT_TRUE(server.listen(*port.duplicate(), [](Socket) {}));
  client.close();
  EXPECT_FALSE(connect(port));
}

TEST_F(BoundPortTest, AClientThatConnectsBetweenTwoServersIsServedByTheSecond) {
  BoundPort port = bind();
  const tcp::endpoint where = port.endpoint();
  {
    Listener first(io, nullptr);
    ASSERT_TRUE(first.listen(*port.duplicate(), [](Socket) { FAIL() << "it is closed by then"; }));
    first.close();
  }
  ASSERT_FALSE(connect(port));
  int accepted = 0;
  Listener second(io, nullptr);
  ASSERT_TRUE(second.listen(std::move(port), [&](Socket) {
    ++accepted;
    io.stop();
  }));
  io.run();
  second.close();
  EXPECT_EQ(accepted, 1);
  asio::error_code error;
  tcp::socket late(io);
  late.connect(where, error);
  EXPECT_EQ(error, asio::error::connection_refused) << "the port is free again";
}

TEST_F(BoundPortTest, AnErrorNamesTheAddress) {
  const BoundPort taken = bind();
  Listener server(io, nullptr);
  ASSERT_TRUE(server.listen(*taken.duplicate(), [](Socket) {}));
  const auto second = BoundPort::bind("127.0.0.1", taken.endpoint().port(), "http.port");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error(),
              AllOf(HasSubstr("127.0.0.1"), HasSubstr(std::to_string(taken.endpoint().port())),
                    HasSubstr("in use"), HasSubstr("`http.port`")));
  EXPECT_THAT(BoundPort::bind("nowhere", 1, "listen.port").error(), HasSubstr("nowhere"));
}

}  // namespace
}  // namespace locksley::daemon
