#include "daemon/base/net/tcp_round_trip.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

namespace locksley::daemon {
namespace {

TEST(TcpRoundTripTest, AConnectionThatHasCarriedBytesHasOneThatIsNoLongerThanTheMean) {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  asio::ip::tcp::socket client(io);
  client.connect(acceptor.local_endpoint());
  asio::ip::tcp::socket server = acceptor.accept();
  std::array<char, 1> byte{'x'};
  for (int i = 0; i < 10; ++i) {
    asio::write(client, asio::buffer(byte));
    asio::read(server, asio::buffer(byte));
    asio::write(server, asio::buffer(byte));
    asio::read(client, asio::buffer(byte));
  }
  const auto measured = tcp_round_trip(client.native_handle());
  ASSERT_TRUE(measured);
  EXPECT_GE(measured->count(), 1);
  tcp_info info{};
  socklen_t size = sizeof info;
  ASSERT_EQ(::getsockopt(client.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  EXPECT_LE(measured->count(), info.tcpi_rtt + 1);
}

TEST(TcpRoundTripTest, WhatIsNoTcpConnectionHasNone) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  EXPECT_FALSE(tcp_round_trip(pair[0]));
  for (const int socket : pair) ::close(socket);
  EXPECT_FALSE(tcp_round_trip(-1));
}

}  // namespace
}  // namespace locksley::daemon
