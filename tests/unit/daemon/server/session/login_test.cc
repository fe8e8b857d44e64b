// Logging in where no password is needed, and what a user's own limits say to it.
#include <gtest/gtest.h>

#include <asio/post.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/lane/lane_view.h"
#include "daemon/auth/password.h"
#include "daemon/base/loop/io_thread.h"
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
      return server_->session(connection)->login().log_in_by_certificate(common_name);
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

TEST_F(LoginTest, ARepeatedForgetOfAnAdminLeavesTheBatchOfAnotherUser) {
  start([](config::Config& config) {
    for (const char* name : {"alice", "admin"}) config.users[name].certificate = name;
    config.users["admin"].commands.push_back(config::CommandGroup::kAdmin);
  });
  Client alice(port_);
  EXPECT_EQ(alice.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice"));
  Client admin(port_);
  EXPECT_EQ(admin.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(2, "admin"));
  for (Client* client : {&alice, &admin}) {
    client->send("SUBMIT echo ID b RANGE 0 0\r\n");
    EXPECT_EQ(client->bulk(), "b");
  }
  EXPECT_EQ(admin.ask("FORGET b"), ":1") << "a batch without jobs is over at once";
  EXPECT_EQ(admin.ask("FORGET b"), ":0");
  EXPECT_EQ(admin.ask("CANCEL b"),
            "-NOBATCH your own batch 'b' was forgotten: write 'alice/b' for the one of that user");
  EXPECT_EQ(admin.ask("CANCEL alice/b"), ":0") << "it is over";
  admin.send("SUBMIT echo ID b RANGE 0 0\r\n");
  EXPECT_EQ(admin.bulk(), "b");
  EXPECT_EQ(admin.ask("CANCEL b"), ":0") << "its own is there again";
  EXPECT_EQ(admin.ask("FORGET alice/b"), ":1");
  EXPECT_EQ(alice.ask("FORGET b"), ":0");
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

TEST_F(LoginTest, ANewConnectionTakesThePlaceOfTheOldestThatHasNotLoggedIn) {
  start([](config::Config& config) {
    config.users["alice"].certificate = "alice's laptop";
    config.limits.max_clients = 3;
  });
  Client first(port_);
  Client second(port_);
  Client third(port_);
  for (Client* client : {&first, &second, &third}) EXPECT_EQ(client->ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  // Not before the others had time to log in.
  const Instant deadline = now() + std::chrono::seconds(60);
  for (bool is_in = false; !is_in; std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
    ASSERT_LT(now(), deadline);
    Client next(port_);
    const std::string reply = next.ask("PING");
    is_in = reply == kNoAuthLine;
    const bool is_refused = reply == "-ERR max number of clients reached" || reply.ends_with("<closed>");
    EXPECT_TRUE(is_in || is_refused) << reply;
  }
  EXPECT_TRUE(second.is_closed());
  EXPECT_EQ(first.ask("PING"), "+PONG");
  EXPECT_EQ(third.ask("PING"), kNoAuthLine);
}

// A user may have many connections, each with ten thousand channels, which take 20 ms.
TEST_F(LoginTest, AReloadMovesVeryManyChannelsInSlicesAndCommandsMayChangeThemMeanwhile) {
  constexpr int kChannels = 2000;
  start([](config::Config& config) {
    config.users["alice"].certificate = "alice's laptop";
    config.users["alice"].commands.push_back(config::CommandGroup::kAdmin);
  });
  Client client(port_);
  EXPECT_EQ(client.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  const auto name_of = [](int n) { return "batch:" + std::to_string(n); };
  // How many are in that audience.
  const auto count_in = [&](std::string_view audience) {
    kIoThread.assert_held();
    int found = 0;
    Events& events = server_->batches().events();
    Subscriptions& subscriptions = server_->session(1)->subscriptions();
    for (int n = 0; n < kChannels; ++n) {
      if (!events.unsubscribe(subscriptions, audience, name_of(n))) continue;
      events.subscribe(subscriptions, audience, name_of(n));
      ++found;
    }
    return found;
  };
  on_io_thread([&] {
    kIoThread.assert_held();
    Subscriptions& subscriptions = server_->session(1)->subscriptions();
    for (int n = 0; n < kChannels; ++n) subscriptions.add(Subscriptions::Kind::kChannel, name_of(n));
    return true;
  });
  EXPECT_EQ(on_io_thread([&] { return count_in(Events::kEverything); }), kChannels);
  config::Config config = on_io_thread([&] {
    kIoThread.assert_held();
    return server_->config();
  });
  std::erase(config.users["alice"].commands, config::CommandGroup::kAdmin);
  const int left = on_io_thread([&] {
    kIoThread.assert_held();
    server_->reconfigure(config, {.users = true});
    return count_in(Events::kEverything);
  });
  EXPECT_GE(left, kChannels - 10) << "the reload itself moves next to none";
  const auto all_are_in = [&](std::string_view audience, int many) {
    const Instant deadline = now() + std::chrono::seconds(60);
    while (on_io_thread([&] { return count_in(audience); }) != many) {
      if (now() >= deadline) return false;
      std::this_thread::yield();
    }
    return true;
  };
  EXPECT_TRUE(all_are_in("alice", kChannels));
  // Back again, and half of the channels go while they move.
  config.users["alice"].commands.push_back(config::CommandGroup::kAdmin);
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->reconfigure(config, {.users = true});
    Subscriptions& subscriptions = server_->session(1)->subscriptions();
    for (int n = 0; n < kChannels; n += 2) subscriptions.remove(Subscriptions::Kind::kChannel, name_of(n));
    return true;
  });
  EXPECT_TRUE(all_are_in(Events::kEverything, kChannels / 2));
  EXPECT_EQ(on_io_thread([&] { return count_in("alice"); }), 0);
}

TEST_F(LoginTest, AReloadHandsEachConnectionItsUserAsItIsNow) {
  start_with_alice();
  Client client(port_);
  EXPECT_EQ(client.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  config::Config config = on_io_thread([&] {
    kIoThread.assert_held();
    return server_->config();
  });
  const auto reconfigure = [&] {
    on_io_thread([&] {
      kIoThread.assert_held();
      server_->reconfigure(config, {.users = true});
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
  config::Config config = on_io_thread([&] {
    kIoThread.assert_held();
    return server_->config();
  });
  const auto reconfigure = [&] {
    on_io_thread([&] {
      kIoThread.assert_held();
      server_->reconfigure(config, {.users = true});
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
  config::Config config = on_io_thread([&] {
    kIoThread.assert_held();
    return server_->config();
  });
  config.users["alice"].weight = 1;
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->reconfigure(config, {.users = true});
    return true;
  });
  EXPECT_EQ(weight(), 1u);
}

// ---- The configuration changes while a password is checked ----

class ChangedMeanwhileTest : public LoginTest {
 protected:
  static std::string hash_of(const std::string& password) {
    return hash_password(password, {.memory_kib = 8, .passes = 1}).value();
  }
  BatchRecord& batch_of(const std::string& user, const std::string& id) LOCKSLEY_REQUIRES(kIoThread) {
    Registry& registry = server_->batches().registry();
    return **registry.find(registry.tenants().of(user), id);
  }
  bool is_heard(const std::string& user, const std::string& id) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->batches().events().has_listener(batch_of(user, id));
    });
  }
  // Calls it on the I/O thread, between all other handlers, until it returns true.
  void call_until_true(std::function<bool()> step) {
    asio::post(io_, [this, step = std::move(step)] {
      if (!step()) call_until_true(step);
    });
  }
};

// Its subscriptions follow its login in slices, for which the change need not wait.
TEST_F(ChangedMeanwhileTest, ALoginThatIsRefusedLeavesTheSubscriptionsWithTheUserThatThereWas) {
  const std::string hash = hash_of("secret");
  const std::string another = hash_of("another");
  start_with_alice();
  config::Config config = on_io_thread([&] {
    kIoThread.assert_held();
    return server_->config();
  });
  config.users["bob"].certificate = "bob's laptop";
  config.users["bob"].password_hash = hash;
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->reconfigure(config, {.users = true});
    return true;
  });
  Client alice(port_);
  Client bob(port_);
  EXPECT_EQ(alice.ask("PING"), kNoAuthLine);
  EXPECT_EQ(bob.ask("PING"), kNoAuthLine);
  EXPECT_TRUE(show_certificate(1, "alice's laptop"));
  EXPECT_TRUE(show_certificate(2, "bob's laptop"));
  for (Client* each : {&alice, &bob}) {
    each->send("SUBMIT hold ID 0 JOBS a\r\n");
    EXPECT_EQ(each->bulk(), "0");
  }
  constexpr int kMany = 20'000;
  on_io_thread([&] {
    kIoThread.assert_held();
    Session& session = *server_->session(1);
    session.info().protocol = proto::Protocol::kResp3;  // for AUTH beside subscriptions
    for (int i = 0; i < kMany; ++i)
      session.subscriptions().add(Subscriptions::Kind::kChannel, "batch:" + std::to_string(i));
    return true;
  });
  ASSERT_TRUE(is_heard("alice", "0"));
  config.users["bob"].password_hash = another;
  call_until_true([&] {
    kIoThread.assert_held();
    if (!server_->batches().events().has_listener(batch_of("bob", "0"))) return false;
    server_->reconfigure(config, {.users = true});
    return true;
  });
  alice.send("AUTH bob secret\r\n");
  std::string reply = alice.line();
  while (!reply.starts_with('-') && !reply.starts_with('+')) reply = alice.line();  // an event of her batch
  EXPECT_EQ(reply, "-ERR the user has changed since its password was checked: log in again");
  EXPECT_TRUE(is_heard("alice", "0"));
  EXPECT_FALSE(is_heard("bob", "0")) << "to the connection of alice";
}

TEST_F(ChangedMeanwhileTest, APasswordThatIsChangedBetweenItsCheckAndTheLoginLogsNobodyIn) {
  constexpr int kUsers = 24;  // each by a password that is not remembered as right
  const std::string hash = hash_of("right");
  const std::string another = hash_of("another");
  const auto name_of = [](int i) { return "user" + std::to_string(i); };
  start_with_alice();
  config::Config config = on_io_thread([&] {
    kIoThread.assert_held();
    return server_->config();
  });
  bool is_over = false;
  bool was_logged_in = false;
  bool is_right = false;
  call_until_true([&] {
    kIoThread.assert_held();
    for (std::uint64_t id = 1; id <= kUsers; ++id) {
      const Session* const session = server_->session(id);
      if (session == nullptr || !session->is_logged_in()) continue;
      const UserRef user = server_->state().users().find(session->user().name());
      if (user->password_hash() != session->user().password_hash()) was_logged_in = true;
    }
    is_right = !is_right;
    for (int i = 0; i < kUsers; ++i) config.users[name_of(i)].password_hash = is_right ? hash : another;
    server_->reconfigure(config, {.users = true});
    return is_over;
  });
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kUsers; ++i) {
    clients.push_back(std::make_unique<Client>(port_));
    clients.back()->send("AUTH " + name_of(i) + " right\r\n");
    clients.back()->read(1);  // whatever the reply is
  }
  on_io_thread([&] { return is_over = true; });
  on_io_thread([] { return true; });  // after the last call
  EXPECT_FALSE(was_logged_in) << "by a password that is not the user's any more";
}

}  // namespace
}  // namespace locksley::daemon
