#include "daemon/server/session/subscriptions/subscriptions.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/accounts/tenants.h"

namespace locksley::daemon {
namespace {

class SubscriptionsTest : public ::testing::Test, protected Subscriptions::Sink {
 protected:
  using Kind = Subscriptions::Kind;
  static constexpr int kMany = 10'000;

  bool takes_messages() const override { return true; }
  void write_message(std::string_view /*pattern*/, std::string_view channel, std::string_view) override {
    written_.emplace_back(channel);
  }
  void event_waits() override {}
  void events_are_missed() override {}

  void queue(int events) {
    for (int n = 0; n < events; ++n) {
      subscriptions_.queue_event({"batch:" + std::to_string(n), std::make_shared<const std::string>("{}")});
    }
  }
  // How many calls it takes until all is done, each of which has no time.
  template <class Step>
  static int calls_until_done(Step step) {
    int calls = 1;
    while (!step()) ++calls;
    return calls;
  }

  std::vector<std::string> written_;
  std::vector<std::string> names_ = {"echo"};
  ServerStats stats_{names_};
  asio::io_context io_;
  Slices slices_{io_.get_executor()};
  Events events_{stats_, slices_};
  OwnedCounter subscribers_;
  Subscriptions subscriptions_{events_, subscribers_, *this};
};

TEST_F(SubscriptionsTest, EventsThatWaitAreDroppedAFewAtATime) {
  const ThreadRoleScope io_thread(kIoThread);
  subscriptions_.add(Kind::kPattern, "batch:*");
  queue(kMany);
  const int calls = calls_until_done([this] {
    kIoThread.assert_held();
    return subscriptions_.clear_until(now());
  });
  EXPECT_GT(calls, 100);
  EXPECT_TRUE(subscriptions_.is_clear());
  EXPECT_EQ(subscriptions_.memory_bytes(), 0U);
  EXPECT_EQ(subscribers_.get(), 0U) << "it counts once";
}

TEST_F(SubscriptionsTest, EventsThatWaitAfterTheLastPatternIsRemovedAreDroppedAFewAtATime) {
  const ThreadRoleScope io_thread(kIoThread);
  subscriptions_.add(Kind::kPattern, "batch:*");
  queue(kMany);
  subscriptions_.remove(Kind::kPattern, "batch:*");
  EXPECT_TRUE(subscriptions_.empty());
  EXPECT_FALSE(subscriptions_.is_clear());
  EXPECT_GT(calls_until_done([this] { return subscriptions_.match_until(now()); }), 100);
  EXPECT_TRUE(subscriptions_.is_clear());
  EXPECT_TRUE(written_.empty());
  EXPECT_EQ(subscriptions_.memory_bytes(), 0U);
  subscriptions_.clear();
  EXPECT_EQ(subscribers_.get(), 0U);
}

TEST_F(SubscriptionsTest, EventsThatWaitAreMatchedInTheirOrderWhereTheCallBeforeStopped) {
  const ThreadRoleScope io_thread(kIoThread);
  subscriptions_.add(Kind::kPattern, "batch:?");
  subscriptions_.add(Kind::kPattern, "none");
  queue(12);
  EXPECT_FALSE(subscriptions_.match_until(now() - std::chrono::seconds(1)));
  EXPECT_TRUE(subscriptions_.match_until(Instant::max()));
  ASSERT_EQ(written_.size(), 10U);
  EXPECT_EQ(written_.front(), "batch:0");
  EXPECT_EQ(written_.back(), "batch:9");
  subscriptions_.clear();
}

// The audience changes again in the middle of a move to another one, for example by a reload of the
// users.
class MovingSubscriptionsTest : public SubscriptionsTest {
 protected:
  MovingSubscriptionsTest() {
    const ThreadRoleScope io_thread(kIoThread);
    subscriptions_.move_until("alice", Instant::max());
    for (const std::string& channel : kChannels) subscriptions_.add(Kind::kChannel, channel);
    for (int part = 0; part < 2; ++part) EXPECT_FALSE(subscriptions_.move_until("bob", now()));
  }
  ~MovingSubscriptionsTest() override {
    const ThreadRoleScope io_thread(kIoThread);
    subscriptions_.clear();
    for (const std::string_view audience : {"alice", "bob", "carol"}) {
      EXPECT_EQ(left_in(audience), 0) << audience << " has a subscriber that is gone";
    }
  }
  // How many of the channels are subscribed to in that audience; ends these subscriptions.
  int left_in(std::string_view audience) LOCKSLEY_REQUIRES(kIoThread) {
    int left = 0;
    for (const std::string& channel : kChannels) {
      left += events_.unsubscribe(subscriptions_, audience, channel) ? 1 : 0;
    }
    return left;
  }
  // The same, without a change.
  int subscribed_in(std::string_view audience) LOCKSLEY_REQUIRES(kIoThread) {
    int found = 0;
    for (const std::string& channel : kChannels) {
      if (events_.subscribe(subscriptions_, audience, channel)) {
        events_.unsubscribe(subscriptions_, audience, channel);
      } else {
        ++found;
      }
    }
    return found;
  }

  const std::vector<std::string> kChannels = {"", "batch:1", "batch:2", "batches"};
};

TEST_F(MovingSubscriptionsTest, AThirdAudienceGetsAllChannels) {
  const ThreadRoleScope io_thread(kIoThread);
  subscriptions_.move_until("carol", Instant::max());
  EXPECT_EQ(subscribed_in("alice"), 0);
  EXPECT_EQ(subscribed_in("bob"), 0);
  EXPECT_EQ(subscribed_in("carol"), 4);
}

TEST_F(MovingSubscriptionsTest, ThePresentAudienceGetsItsChannelsBack) {
  const ThreadRoleScope io_thread(kIoThread);
  subscriptions_.move_until("alice", Instant::max());
  EXPECT_EQ(subscribed_in("alice"), 4);
  EXPECT_EQ(subscribed_in("bob"), 0);
}

TEST_F(MovingSubscriptionsTest, TheMoveThenBeginsAgain) {
  const ThreadRoleScope io_thread(kIoThread);
  subscriptions_.move_until("carol", Instant::max());
  EXPECT_EQ(calls_until_done([this] {
              kIoThread.assert_held();
              return subscriptions_.move_until("bob", now());
            }),
            5);
  EXPECT_EQ(subscribed_in("bob"), 4);
  EXPECT_EQ(subscribed_in("carol"), 0);
}

TEST_F(MovingSubscriptionsTest, AMoveToAThirdAudienceInPartsTakesTheFirstOneBackInParts) {
  const ThreadRoleScope io_thread(kIoThread);
  EXPECT_FALSE(subscriptions_.move_until("carol", now()));
  EXPECT_EQ(subscribed_in("bob"), 1);
  EXPECT_EQ(subscribed_in("alice"), 3);
  while (!subscriptions_.move_until("carol", now())) continue;
  EXPECT_EQ(subscribed_in("bob"), 0);
  EXPECT_EQ(subscribed_in("alice"), 0);
  EXPECT_EQ(subscribed_in("carol"), 4);
}

TEST_F(MovingSubscriptionsTest, TopicsThatComeAndGoMeanwhileAreInTheAudienceOfTheirNeighbours) {
  const ThreadRoleScope io_thread(kIoThread);
  subscriptions_.remove(Kind::kChannel, "batch:1");  // the last one that has moved
  subscriptions_.remove(Kind::kChannel, "batch:2");
  subscriptions_.add(Kind::kChannel, "batch:1");
  subscriptions_.add(Kind::kChannel, "batch:2");
  EXPECT_EQ(subscribed_in("bob"), 2);
  EXPECT_EQ(subscribed_in("alice"), 2);
  while (!subscriptions_.move_until("bob", now())) continue;
  EXPECT_EQ(subscribed_in("bob"), 4);
  EXPECT_EQ(subscribed_in("alice"), 0);
}

TEST_F(MovingSubscriptionsTest, AMoveIsTakenBackThoughTheTopicsThatHadMovedAreGone) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const char* moved : {"", "batch:1"}) subscriptions_.remove(Kind::kChannel, moved);
  EXPECT_TRUE(subscriptions_.move_until("alice", Instant::max()));
  EXPECT_EQ(subscribed_in("alice"), 2);
  EXPECT_EQ(subscribed_in("bob"), 0);
}

// A user that is no admin any more.
TEST_F(MovingSubscriptionsTest, EventsThatAreNotAllowedAnyMoreEndBeforeTheirChannelsMove) {
  const ThreadRoleScope io_thread(kIoThread);
  Account all;
  const Tenant alice(0, "alice", all);
  const Tenant bob(1, "bob", all);
  const auto text = std::make_shared<const std::string>("{}");
  const auto written_of = [&](const Tenant& owner) {
    written_.clear();
    subscriptions_.deliver({"batches", text, &owner});
    subscriptions_.queue_event({"batches", text, &owner});
    return written_.size() + subscriptions_.waiting_bytes();
  };
  while (!subscriptions_.move_until(Events::kEverything, now())) continue;
  EXPECT_NE(written_of(bob), 0U);
  while (!subscriptions_.match_until(Instant::max())) continue;
  subscriptions_.restrict_to("alice");
  EXPECT_EQ(written_of(bob), 0U);
  EXPECT_NE(written_of(alice), 0U);
  while (!subscriptions_.match_until(Instant::max())) continue;
  EXPECT_FALSE(subscriptions_.move_until("alice", now()));
  EXPECT_EQ(written_of(bob), 0U);
  subscriptions_.restrict_to(Events::kEverything);
  EXPECT_NE(written_of(bob), 0U) << "it is an admin again";
}

TEST_F(MovingSubscriptionsTest, ItEndsWithTheSubscriptions) {
  const ThreadRoleScope io_thread(kIoThread);
  subscriptions_.clear();
  EXPECT_EQ(left_in("alice"), 0);
  EXPECT_EQ(left_in("bob"), 0);
}

}  // namespace
}  // namespace locksley::daemon
