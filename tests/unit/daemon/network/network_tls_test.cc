// The same with TLS: an ordinary OpenSSL client.
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/tls/context.h"
#include "tests/support/test_certificate.h"
#include "tests/unit/daemon/network/network_threads_fixture.h"

namespace locksley::daemon {
namespace {

class NetworkThreadsTlsTest : public NetworkThreadsTest {
 protected:
  NetworkThreadsTlsTest() {
    const auto context = TlsContext::load(
        {.certificate = pair_.certificate_file(), .key = pair_.key_file(), .client_ca = "", .clients = {}},
        TlsUse::kWire, "t");
    channel_ = TlsChannel::make(*context, sockets_[0]);
    client_context_.reset(SSL_CTX_new(TLS_client_method()));
    client_.reset(SSL_new(client_context_.get()));
    SSL_set_fd(client_.get(), peer());
    SSL_set_connect_state(client_.get());
  }

  // The client sends `first` at once with the last of its handshake, before the server has read
  // that.
  void shake_hands(std::string_view first) {
    ASSERT_NE(SSL_do_handshake(client_.get()), 1);
    ASSERT_EQ(channel_->handshake(), TlsChannel::Then::kWantRead);
    ASSERT_EQ(SSL_do_handshake(client_.get()), 1);
    client_says(first);
    ASSERT_EQ(channel_->handshake(), TlsChannel::Then::kDone);
  }
  void client_says(std::string_view bytes) {
    ASSERT_EQ(SSL_write(client_.get(), bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
  }
  std::string client_hears(std::size_t most) LOCKSLEY_REQUIRES(kIoThread) {
    std::string all;
    bool is_end = false;
    wait_for([&] {
      kIoThread.assert_held();
      if (!unsent_.empty()) unsent_.remove_prefix(send(unsent_).value());
      std::array<char, 4096> space;
      const int got = SSL_read(client_.get(), space.data(), static_cast<int>(space.size()));
      if (got > 0) all.append(space.data(), static_cast<std::size_t>(got));
      is_end = got <= 0 && SSL_get_error(client_.get(), got) != SSL_ERROR_WANT_READ;
      return all.size() >= most || is_end;
    });
    return all;
  }

  struct ContextFree {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  const locksley::testing::TestCertificate pair_{{}};
  std::unique_ptr<SSL_CTX, ContextFree> client_context_;
  TlsSession client_;
  std::unique_ptr<TlsChannel> channel_;
};

TEST_F(NetworkThreadsTlsTest, BytesThatCameWithTheHandshakeAreThere) {
  kIoThread.assert_held();
  shake_hands("PING");
  take_over(std::move(channel_));
  EXPECT_EQ(receive(4), "PING");
  send_all("+PONG");
  EXPECT_EQ(client_hears(5), "+PONG");
}

TEST_F(NetworkThreadsTlsTest, MuchGoesBothWays) {
  kIoThread.assert_held();
  shake_hands("x");
  take_over(std::move(channel_));
  ASSERT_EQ(receive(1), "x");
  const std::string text = numbers(1 << 20);
  send_all(text);
  EXPECT_TRUE(client_hears(text.size()) == text);
  client_says(std::string_view(text).substr(0, 40'000));
  EXPECT_TRUE(receive(40'000) == text.substr(0, 40'000));
}

TEST_F(NetworkThreadsTlsTest, TheEndIsSaidBothWays) {
  kIoThread.assert_held();
  shake_hands("last");
  ASSERT_EQ(SSL_shutdown(client_.get()), 0);
  take_over(std::move(channel_));
  EXPECT_EQ(receive(100), "last");
  EXPECT_TRUE(is_end_);
  send_all("farewell");
  end_.reset();
  EXPECT_EQ(client_hears(100), "farewell");
  EXPECT_EQ(SSL_get_shutdown(client_.get()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
}

TEST_F(NetworkThreadsTlsTest, APeerThatBreaksTheProtocolHasComeToItsEnd) {
  kIoThread.assert_held();
  shake_hands("x");
  take_over(std::move(channel_));
  ASSERT_EQ(receive(1), "x");
  ASSERT_EQ(peer_says("this is no record of TLS"), 24U);
  EXPECT_EQ(receive(100), "");
  EXPECT_TRUE(is_end_);
}

}  // namespace
}  // namespace locksley::daemon
