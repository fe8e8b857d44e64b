// The handshake and the farewell of a connection; the test is its peer, and its thread runs it.
#include "daemon/connection/connection.h"

#include <gtest/gtest.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address_v4.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/pool/worker_stats.h"
#include "daemon/tls/context.h"
#include "tests/support/test_certificate.h"

namespace locksley::daemon {
namespace {

using Handshake = Connection::Handshake;

class OwnerOfConnection : public std::enable_shared_from_this<OwnerOfConnection> {
 public:
  OwnerOfConnection(Transport transport, Turns& turns, const IoExecutor& executor)
      : connection(std::move(transport), "peer", turns, executor) {}
  void socket_is_ready() { connection.wakeup().wake_here(); }
  std::optional<bool> flush() {
    ++flushes;
    const std::array views{std::string_view(unsent)};
    const auto sent = connection.transport().send(views);
    if (!sent) return std::nullopt;
    unsent.erase(0, *sent);
    return unsent.empty();
  }

  Connection connection;
  std::string unsent;
  int flushes = 0;
};

class ConnectionTest : public ::testing::Test {
 protected:
  // Connects the peer.
  std::shared_ptr<OwnerOfConnection> open(const std::shared_ptr<const TlsContext>& tls = nullptr) {
    Acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
    peer_.emplace(io_);
    peer_->connect(acceptor.local_endpoint());
    Socket socket = acceptor.accept();
    socket.non_blocking(true);
    peer_->non_blocking(true);
    return std::make_shared<OwnerOfConnection>(Transport(std::move(socket), tls), turns_, io_.get_executor());
  }
  void peer_says(std::string_view text) { asio::write(*peer_, asio::buffer(text)); }
  // All until the end. An error that is not the end is part of it.
  std::string peer_hears() {
    std::string all;
    run_until([&] {
      std::array<char, 100> space;
      asio::error_code error;
      const std::size_t got = peer_->read_some(asio::buffer(space), error);
      all.append(space.data(), got);
      if (error == asio::error::would_block || !error) return false;
      if (error != asio::error::eof) all += error.message();
      return true;
    });
    return all;
  }
  template <class Done>
  void run_until(Done done) {
    const Instant deadline = now() + std::chrono::seconds(60);
    while (!done()) {
      ASSERT_LT(now(), deadline);
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(1));
    }
  }
  void say_goodbye(const std::shared_ptr<OwnerOfConnection>& owner) {
    const auto farewell = [](std::shared_ptr<OwnerOfConnection> held, bool& is_over) -> Coroutine<void> {
      const auto flush = [&held] { return held->flush(); };
      co_await held->connection.say_goodbye(*held, flush);
      is_over = true;
    };
    asio::co_spawn(io_.get_executor(), farewell(owner, is_over_), asio::detached);
  }
  Handshake shake_hands(const std::shared_ptr<OwnerOfConnection>& owner, Instant deadline) {
    const auto handshake = [](std::shared_ptr<OwnerOfConnection> held, HandshakeQueue& queue, Instant until,
                              std::optional<Handshake>& result) -> Coroutine<void> {
      result = co_await held->connection.shake_hands(*held, queue, until);
    };
    std::optional<Handshake> result;
    asio::co_spawn(io_.get_executor(), handshake(owner, queue_, deadline, result), asio::detached);
    run_until([&result] { return result.has_value(); });
    owner->connection.close();
    return result.value_or(Handshake::kDone);
  }

  asio::io_context io_;
  OwnedCounter polls_;
  Turns turns_{io_.get_executor(), polls_};
  HandshakeQueue queue_{io_.get_executor()};
  std::optional<Socket> peer_;
  bool is_over_ = false;
};

TEST_F(ConnectionTest, TheLastReplyArrivesThoughThePeerHasSentMore) {
  const auto owner = open();
  peer_says("what is not read any more");
  owner->unsent = "+OK\r\n";
  say_goodbye(owner);
  EXPECT_EQ(peer_hears(), "+OK\r\n");
  peer_.reset();
  run_until([this] { return is_over_; });
}

TEST_F(ConnectionTest, ADroppedConnectionSaysNothingMore) {
  const auto owner = open();
  owner->unsent = "+OK\r\n";
  EXPECT_TRUE(owner->connection.life().go_to(Life::kDropped));
  say_goodbye(owner);
  run_until([this] { return is_over_; });
  EXPECT_EQ(owner->flushes, 0);
}

TEST_F(ConnectionTest, AHandshakeThatDoesNotComeSaysWhy) {
  const locksley::testing::TestCertificate pair{{}};
  const auto tls = TlsContext::load(
      {.certificate = pair.certificate_file(), .key = pair.key_file(), .client_ca = "", .clients = {}},
      TlsUse::kWire, "t");
  ASSERT_TRUE(tls.has_value());
  const Instant later = now() + std::chrono::hours(1);
  auto owner = open(*tls);
  EXPECT_EQ(owner->connection.life().now(), Life::kHandshake);
  peer_says("PING\r\n");
  EXPECT_EQ(shake_hands(owner, later), Handshake::kPlain);
  owner = open(*tls);
  peer_.reset();
  EXPECT_EQ(shake_hands(owner, later), Handshake::kGone);
  owner = open(*tls);
  EXPECT_EQ(shake_hands(owner, now()), Handshake::kLate);
  owner = open(*tls);
  EXPECT_TRUE(owner->connection.life().go_to(Life::kDropped));
  owner->connection.wakeup().wake();
  EXPECT_EQ(shake_hands(owner, later), Handshake::kClosed);
}

}  // namespace
}  // namespace locksley::daemon
