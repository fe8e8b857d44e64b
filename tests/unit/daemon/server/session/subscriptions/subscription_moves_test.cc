// Very many channels follow the user of their connection, when two move them and while they move.
#include "daemon/server/session/subscriptions/subscription_moves.h"

#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/session/session.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

class SubscriptionMovesTest : public ServerFixture {
 protected:
  static constexpr int kChannels = 5'000;  // some 20 ms to move

  SubscriptionMovesTest() {
    start([](config::Config& config) {
      for (const char* name : {"alice", "bob", "writer"}) config.users[name].certificate = name;
      config.users["writer"].commands = {config::CommandGroup::kSubmit};
    });
    client_.emplace(port_);
    client_->ask("PING");  // it is accepted now
    on_io_thread([this] {
      kIoThread.assert_held();
      Session& alice = session();
      alice.login().log_in_by_certificate("alice");
      for (int n = 0; n < kChannels; ++n)
        alice.subscriptions().add(Subscriptions::Kind::kChannel, name_of(n));
      alice.memory().update();
      return true;
    });
  }

  ~SubscriptionMovesTest() override { stop(); }

  static std::string name_of(int n) { return "batch:" + std::to_string(n); }
  Session& session() LOCKSLEY_REQUIRES(kIoThread) { return *server_->session(1); }
  UserRef user(std::string_view name) LOCKSLEY_REQUIRES(kIoThread) {
    return server_->state().users().find(name);
  }
  // How many of the channels are in that audience.
  int count_in(std::string_view audience) LOCKSLEY_REQUIRES(kIoThread) {
    int found = 0;
    Events& events = server_->batches().events();
    Subscriptions& subscriptions = session().subscriptions();
    for (int n = 0; n < kChannels; ++n) {
      if (!events.unsubscribe(subscriptions, audience, name_of(n))) continue;
      events.subscribe(subscriptions, audience, name_of(n));
      ++found;
    }
    return found;
  }
  // As a command that logs in does it. `is_moved_` is true afterwards.
  void begin_move_to(std::string_view name) LOCKSLEY_REQUIRES(kIoThread) {
    asio::co_spawn(server_->state().executor(), moving_to(user(name)), asio::detached);
  }
  Coroutine<void> moving_to(UserRef to) {
    kIoThread.assert_held();
    co_await session().subscription_moves().move_to(std::move(to));
    is_moved_ = true;
  }
  // Calls both on the I/O thread: `begin`, which begins to move the channels to that audience, and
  // `act` between two slices, when some have moved. Returns true once that has happened.
  bool act_in_the_middle(std::string_view audience, const std::function<void()>& begin,
                         const std::function<void()>& act) {
    look_ = [this, audience, act] {
      kIoThread.assert_held();
      if (count_in(audience) == 0) return asio::post(io_, look_);
      EXPECT_LT(count_in(audience), kChannels) << "the move is to be under way";
      act();
      has_acted_ = true;
    };
    on_io_thread([this, &begin] {
      begin();
      asio::post(io_, look_);
      return true;
    });
    return becomes_true([this] { return has_acted_; });
  }
  template <class Condition>
  bool becomes_true(Condition condition) {
    const Instant deadline = now() + std::chrono::seconds(60);
    while (!on_io_thread([&] { return condition(); })) {
      if (now() >= deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::optional<Client> client_;
  // Of the I/O thread:
  std::function<void()> look_;
  bool has_acted_ = false;
  bool is_moved_ = false;
};

TEST_F(SubscriptionMovesTest, AUserThatMayNotReadEndsThem) {
  on_io_thread([this] {
    kIoThread.assert_held();
    EXPECT_GE(session().memory().output(), session().subscriptions().memory_bytes());
    begin_move_to("writer");
    return true;
  });
  EXPECT_TRUE(becomes_true([this] { return is_moved_; }));
  on_io_thread([this] {
    kIoThread.assert_held();
    EXPECT_TRUE(session().subscriptions().is_clear());
    EXPECT_LT(session().memory().output(), kChannels) << "and their memory is not charged any more";
    return true;
  });
}

TEST_F(SubscriptionMovesTest, WhatACommandMovesIsLeftToItUntilItIsDone) {
  const auto begin = [this] {
    kIoThread.assert_held();
    begin_move_to("bob");
  };
  EXPECT_TRUE(act_in_the_middle("bob", begin, [this] {
    kIoThread.assert_held();
    session().subscription_moves().follow();  // as if the users had been reloaded
  }));
  EXPECT_TRUE(becomes_true([this] { return is_moved_; }));
  on_io_thread([this] {
    kIoThread.assert_held();
    EXPECT_EQ(count_in("bob"), kChannels);
    EXPECT_EQ(count_in("alice"), 0);
    session().subscription_moves().follow();  // the login has failed after all
    return true;
  });
  EXPECT_TRUE(becomes_true([this] {
    kIoThread.assert_held();
    return count_in("alice") == kChannels;
  }));
}

TEST_F(SubscriptionMovesTest, TheyFollowTheUserThatThereIsNow) {
  const auto begin = [this] {
    kIoThread.assert_held();
    session().login().log_in_by_certificate("bob");
  };
  EXPECT_TRUE(act_in_the_middle("bob", begin, [this] {
    kIoThread.assert_held();
    session().login().log_in_by_certificate("alice");
  }));
  EXPECT_TRUE(becomes_true([this] {
    kIoThread.assert_held();
    return count_in("alice") == kChannels;
  }));
  EXPECT_EQ(on_io_thread([this] {
              kIoThread.assert_held();
              return count_in("bob");
            }),
            0);
}

}  // namespace
}  // namespace locksley::daemon
