// TLS over a socket that takes part of the bytes, blocks, closes and sends garbage; and the order
// of handshakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/tls/channel.h"
#include "daemon/tls/handshake_queue.h"
#include "tests/support/test_certificate.h"

namespace locksley::daemon {
namespace {

using locksley::testing::TestCertificate;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Then = TlsChannel::Then;

// A channel and its peer, an ordinary OpenSSL client, on the two ends of a socket. Neither blocks.
class TlsChannelTest : public ::testing::Test {
 protected:
  TlsChannelTest() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets_.data()), 0);
    const auto context = TlsContext::load(
        {.certificate = pair_.certificate_file(), .key = pair_.key_file(), .client_ca = "", .clients = {}},
        TlsUse::kWire, "t");
    server_ = TlsChannel::make(*context, sockets_[0]);
    client_context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_options(client_context_.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
    client_.reset(SSL_new(client_context_.get()));
    SSL_set_fd(client_.get(), sockets_[1]);
    SSL_set_connect_state(client_.get());
  }
  ~TlsChannelTest() override {
    ::close(sockets_[0]);
    ::close(sockets_[1]);
  }

  void shake_hands() {
    Then then = Then::kWantRead;
    for (int i = 0; i < 10 && then != Then::kDone; ++i) {
      SSL_do_handshake(client_.get());
      then = server_->handshake();
    }
    SSL_do_handshake(client_.get());
    ASSERT_EQ(then, Then::kDone);
  }
  void client_says(std::string_view bytes) {
    ASSERT_EQ(SSL_write(client_.get(), bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
  }
  std::string client_hears() {
    std::array<char, 4096> block;
    std::string all;
    for (int got = 1; got > 0;) {
      got = SSL_read(client_.get(), block.data(), block.size());
      if (got > 0) all.append(block.data(), static_cast<std::size_t>(got));
    }
    return all;
  }
  TlsChannel::Moved read(std::size_t most) {
    space_.assign(most, std::byte{0});
    return server_->read(space_);
  }
  std::string text(std::size_t count) const { return {reinterpret_cast<const char*>(space_.data()), count}; }

  struct ContextFree {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  const TestCertificate pair_{{}};
  std::array<int, 2> sockets_{-1, -1};
  std::unique_ptr<SSL_CTX, ContextFree> client_context_;
  TlsSession client_;
  std::unique_ptr<TlsChannel> server_;
  std::vector<std::byte> space_;
};

TEST_F(TlsChannelTest, LeavesNothingBehindThatTheSocketWouldNotTellOf) {
  shake_hands();
  for (int i = 0; i < 3; ++i) client_says("record");
  const auto all = read(1000);
  EXPECT_EQ(all.then, Then::kWantRead);
  EXPECT_EQ(text(all.bytes), "recordrecordrecord");
}

TEST_F(TlsChannelTest, SaysThatThereIsMoreWhenTheSpaceIsFull) {
  shake_hands();
  client_says("a record longer than the space");
  EXPECT_EQ(read(5).then, Then::kDone);
  EXPECT_EQ(text(5), "a rec");
  const auto rest = read(1000);
  EXPECT_EQ(rest.then, Then::kWantRead);
  EXPECT_EQ(text(rest.bytes), "ord longer than the space");
}

TEST_F(TlsChannelTest, BytesBeforeTheEndCountAndTheEndIsTold) {
  shake_hands();
  client_says("last words");
  SSL_shutdown(client_.get());
  const auto last = read(1000);
  EXPECT_EQ(text(last.bytes), "last words");
  EXPECT_EQ(last.then, Then::kEnd);
  // The other direction may still be used.
  const std::array<std::string_view, 1> views{"farewell"};
  EXPECT_EQ(server_->write(views).bytes, 8U);
  EXPECT_EQ(client_hears(), "farewell");
}

TEST_F(TlsChannelTest, APeerThatBreaksOffHasComeToItsEnd) {
  shake_hands();
  ::shutdown(sockets_[1], SHUT_WR);
  EXPECT_EQ(read(10).then, Then::kEnd);
}

TEST_F(TlsChannelTest, WhatTheSocketDoesNotTakeComesAgainWithMoreBehindItAndFromAnotherPlace) {
  shake_hands();
  std::string sent;
  for (int i = 0; sent.size() < 3'000'000; ++i)
    sent += std::to_string(i) + (i % 3 == 0 ? std::string(5000, 'x') : " ");
  std::string heard;
  std::size_t done = 0;
  std::size_t known = 1000;
  int refusals = 0;
  while (heard.size() < sent.size()) {
    // Small and large views, more of them each time, and always in new memory.
    const std::string copy = sent.substr(done, known - done);
    std::vector<std::string_view> views;
    for (std::size_t at = 0; at < copy.size();) {
      const std::size_t size = views.size() % 2 == 0 ? 3 : 40'000;
      views.push_back(std::string_view(copy).substr(at, size));
      at += views.back().size();
    }
    const auto moved = server_->write(views);
    ASSERT_NE(moved.then, Then::kFailed) << server_->error();
    done += moved.bytes;
    known = std::min(sent.size(), known + 300'000);
    if (moved.then == Then::kWantWrite && ++refusals % 2 == 0) continue;  // sometimes the peer reads nothing
    heard += client_hears();
  }
  EXPECT_GT(refusals, 1);
  EXPECT_TRUE(heard == sent);
}

TEST_F(TlsChannelTest, OthersHaveTheirTurnWhileAPeerIsFloodedOrFloods) {
  shake_hands();
  const int large = 8 << 20;
  ::setsockopt(sockets_[1], SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
  ::setsockopt(sockets_[0], SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
  const std::string much(4 << 20, 'm');
  const std::array<std::string_view, 1> views{much};
  EXPECT_LE(server_->write(views).bytes, TlsChannel::kMostAtOnce);
  SSL_set_mode(client_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE);
  std::size_t said = 0;
  for (int n = 1; n > 0 && said < much.size();) {
    n = SSL_write(client_.get(), much.data(), static_cast<int>(much.size()));
    said += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  const auto moved = read(4 << 20);
  EXPECT_LE(moved.bytes, TlsChannel::kMostAtOnce + (64U << 10));
  if (said > 2 * TlsChannel::kMostAtOnce) {
    EXPECT_EQ(moved.then, Then::kDone);
  }
}

TEST_F(TlsChannelTest, GarbageFailsAndSaysWhy) {
  ASSERT_EQ(::send(sockets_[1], "\x16\x03\x01garbage garbage garbage", 26, 0), 26);
  Then then = server_->handshake();
  for (int i = 0; i < 5 && then == Then::kWantRead; ++i) {
    ASSERT_EQ(::send(sockets_[1], std::string(20'000, 'g').data(), 20'000, 0), 20'000);
    then = server_->handshake();
  }
  EXPECT_EQ(then, Then::kFailed);
  EXPECT_NE(server_->error(), "");
}

TEST_F(TlsChannelTest, APeerThatLeavesInTheHandshakeIsSaidToHaveClosed) {
  SSL_do_handshake(client_.get());
  EXPECT_EQ(server_->handshake(), Then::kWantRead);
  ::shutdown(sockets_[1], SHUT_WR);
  EXPECT_EQ(server_->handshake(), Then::kFailed);
  EXPECT_THAT(server_->error(), HasSubstr("closed by the peer"));
}

TEST(HandshakeQueueTest, SourcesAreServedInTurn) {
  asio::io_context io;
  HandshakeQueue queue(io.get_executor());
  std::vector<std::string> order;
  const auto ask = [&](const char* address, std::string name) {
    queue.wait_for_step(asio::ip::make_address(address), [&order, name] { order.push_back(name); });
  };
  ask("10.0.0.1", "a1");
  ask("10.0.0.1", "a2");
  ask("10.0.0.1", "a3");
  ask("10.0.0.2", "b1");
  // One IPv6 network is one source.
  ask("2001:db8::1", "c1");
  ask("2001:db8::2", "c2");
  EXPECT_EQ(queue.waiting(), 6U);
  io.run();
  EXPECT_EQ(queue.waiting(), 0U);
  EXPECT_THAT(order, ElementsAre("a1", "b1", "c1", "a2", "c2", "a3"));
}

TEST(HandshakeQueueTest, OthersComeBetweenTwoTurns) {
  asio::io_context io;
  HandshakeQueue queue(io.get_executor());
  std::vector<std::string> order;
  const auto address = asio::ip::make_address("127.0.0.1");
  for (int i = 0; i < 3; ++i) {
    queue.wait_for_step(address, [&] {
      order.emplace_back("handshake");
      asio::post(io, [&] { order.emplace_back("other"); });
    });
  }
  io.run();
  EXPECT_THAT(order, ElementsAre("handshake", "other", "handshake", "other", "handshake", "other"));
}

}  // namespace
}  // namespace locksley::daemon
