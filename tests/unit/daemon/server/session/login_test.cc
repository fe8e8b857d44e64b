// Logging in where no password is needed, and what a user's own limits say to it.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/lane/lane_view.h"
#include "daemon/base/io_thread.h"
#include "daemon/server/session/session.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

class LoginTest : public ServerFixture {
 protected:
  void start_with_alice(const std::function<void(config::User&)>& change = {}) {
    start([&change](config::Config& config) {
      config::User& alice = config.users["alice"];
      alice.certificate = "alice's laptop";
      if (change) change(alice);
    });
  }
  // Of the connection that was accepted as the n-th, from 1.
  bool show_certificate(std::uint64_t connection, const std::string& common_name) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->session(connection)->log_in_by_certificate(common_name);
    });
  }
  std::uint64_t connections_of(const std::string& user) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->batches().registry().tenants().of(user).account.used(Resource::kConnections);
    });
  }
};

constexpr const char* kNoAuthLine = "-NOAUTH Authentication required.";

TEST_F(LoginTest, ACertificateLogsItsUserIn) {
  start_with_alice();
  Client client(port_);
  EXPECT_EQ(client.ask("PING"), kNoAuthLine);
  EXPECT_FALSE(show_certificate(1, "somebody's laptop"));
  EXPECT_EQ(client.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  EXPECT_EQ(client.ask("PING"), "+PONG");
  EXPECT_EQ(client.ask("CONFIG RELOAD"),
            "-NOPERM User alice has no permissions to run the 'config|reload' command");
}

TEST_F(LoginTest, ConnectionsBeyondTheUsersLimitAreNotLoggedIn) {
  start_with_alice([](config::User& alice) { alice.max_clients = config::Limit{2}; });
  auto first = std::make_unique<Client>(port_);
  Client second(port_);
  Client third(port_);
  for (Client* client : {first.get(), &second, &third}) EXPECT_EQ(client->ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  EXPECT_TRUE(show_certificate(1, "alice's laptop")) << "it is counted already";
  EXPECT_TRUE(show_certificate(2, "alice's laptop"));
  EXPECT_FALSE(show_certificate(3, "alice's laptop"));
  EXPECT_EQ(third.ask("PING"), kNoAuthLine);
  EXPECT_EQ(second.ask("RESET"), "+RESET");
  EXPECT_EQ(connections_of("alice"), 1u);
  EXPECT_TRUE(show_certificate(3, "alice's laptop"));
  first.reset();
  while (connections_of("alice") != 1) std::this_thread::yield();
  EXPECT_TRUE(show_certificate(2, "alice's laptop"));
}

TEST_F(LoginTest, AReloadHandsEachConnectionItsUserAsItIsNow) {
  start_with_alice();
  Client client(port_);
  EXPECT_EQ(client.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  config::Config config = on_io_thread([&] { return server_->config(); });
  const auto reconfigure = [&] {
    on_io_thread([&] {
      kIoThread.assert_held();
      server_->reconfigure(config);
      return true;
    });
  };
  config.users["alice"].commands = {config::CommandGroup::kAdmin};
  reconfigure();
  EXPECT_EQ(client.ask("STATUS x"), "-NOPERM User alice has no permissions to run the 'status' command");
  config.users["bob"].certificate = "bob's";
  config.users.erase("alice");
  reconfigure();
  EXPECT_TRUE(client.is_closed());
}

TEST_F(LoginTest, AChangedCertificateClosesWhatItOpenedAndAChangedPasswordDoesNot) {
  start_with_alice();
  Client client(port_);
  EXPECT_EQ(client.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  config::Config config = on_io_thread([&] { return server_->config(); });
  const auto reconfigure = [&] {
    on_io_thread([&] {
      kIoThread.assert_held();
      server_->reconfigure(config);
      return true;
    });
  };
  config.users["alice"].password_hash = "another";
  reconfigure();
  EXPECT_EQ(client.ask("PING"), "+PONG");
  config.users["alice"].certificate = "alice's desktop";
  reconfigure();
  EXPECT_TRUE(client.is_closed());
}

TEST_F(LoginTest, ATenantsWeightIsThatOfItsUserAtOnce) {
  start_with_alice([](config::User& alice) { alice.weight = 7; });
  Client client(port_);
  EXPECT_EQ(client.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  EXPECT_EQ(client.ask("SUBMIT hold ID x JOBS a b c"), "$1");
  EXPECT_EQ(client.line(), "x");
  const auto weight = [&] {
    return on_io_thread([&] {
      for (const TenantView& tenant : lane_.view().snapshot(0).tenants) {
        if (tenant.tenant == "alice") return tenant.weight;
      }
      return 0U;
    });
  };
  EXPECT_EQ(weight(), 7u);
  config::Config config = on_io_thread([&] { return server_->config(); });
  config.users["alice"].weight = 1;
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->reconfigure(config);
    return true;
  });
  EXPECT_EQ(weight(), 1u);
}

}  // namespace
}  // namespace locksley::daemon
