// Turns of connections, and lines of users.
#include "daemon/base/loop/turns.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "daemon/base/loop/io_loop.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/base/loop/wakeup.h"
#include "daemon/base/time.h"

namespace locksley::daemon {
namespace {

constexpr LineNumber kCrowd = 7;
constexpr LineNumber kNeighbour = 3;

class TurnsTest : public ::testing::Test {
 protected:
  // A connection that notes its turn.
  class Connection final : public Turns::Taker {
   public:
    Connection(std::string& order, char name) : order_(order), name_(name) {}
    void take_turn() override { order_ += name_; }

   private:
    std::string& order_;
    const char name_;
  };

  Connection& connection(char name) { return connections.emplace_back(order, name); }
  void add_crowd(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) turns.add(connection('c'), kCrowd);
  }

  asio::io_context io;
  OwnedCounter polls;
  Turns turns{io.get_executor(), polls};
  std::string order;
  std::deque<Connection> connections;
};

TEST_F(TurnsTest, OneOfAnotherUserWaitsForOneTurnOfManyThatAreReady) {
  constexpr std::size_t kMany = 5'000;
  add_crowd(kMany);
  turns.add(connection('n'), kNeighbour);
  EXPECT_EQ(order, "") << "not within the call";
  io.run();
  EXPECT_EQ(order.size(), kMany + 1);
  EXPECT_EQ(order.find('n'), 1u);
}

// Asio's poll reports 128 sockets at a time.
TEST_F(TurnsTest, WhereAPollHasReportedManyTheNextOnesComeFirst) {
  polls.add(1);
  add_crowd(128);
  asio::post(io, [this] {
    polls.add(1);
    add_crowd(128);
    asio::post(io, [this] {
      polls.add(1);
      add_crowd(10);
      turns.add(connection('n'), kNeighbour);
    });
  });
  io.run();
  EXPECT_EQ(order.size(), 128u + 128u + 10u + 1u);
  EXPECT_EQ(order.find('n'), 1u);
}

TEST_F(TurnsTest, TurnsOfOneUserComeInTheOrderInWhichTheyWereAskedFor) {
  for (const char name : {'a', 'b', 'c', 'd'}) turns.add(connection(name), kCrowd);
  io.run();
  EXPECT_EQ(order, "abcd");
}

TEST_F(TurnsTest, OneThatIsAloneHasItsTurnAtOnceAndAfterAPollAgain) {
  Connection& alone = connection('a');
  turns.add_or_take(alone, kCrowd);
  EXPECT_EQ(order, "a");
  turns.add_or_take(connection('b'), kNeighbour);
  EXPECT_EQ(order, "a") << "the second since the poll";
  polls.add(1);
  turns.add_or_take(alone, kCrowd);
  EXPECT_EQ(order, "a") << "another one waits";
  io.run();
  EXPECT_EQ(order, "aba");
  polls.add(1);
  turns.add_or_take(alone, kCrowd);
  EXPECT_EQ(order, "abaa");
}

TEST_F(TurnsTest, SeveralReasonsForATurnGiveOne) {
  Connection& one = connection('a');
  turns.add(one, kCrowd);
  turns.add(one, kCrowd);
  turns.add_or_take(one, kCrowd);
  io.run();
  EXPECT_EQ(order, "a");
}

// With 60 us each, all turns take several rounds.
TEST(TurnsOfTheLoopTest, AFunctionOfAnotherThreadWaitsForFewOfTheTurnsOfManyThatAreReady) {
  constexpr std::size_t kMany = 40;
  asio::io_context io(1);
  OwnedCounter polls;
  Turns turns(io.get_executor(), polls);
  std::string order;
  class Connection final : public Turns::Taker {
   public:
    Connection(asio::io_context& io, std::string& order) : io_(io), order_(order) {}
    void take_turn() override {
      const Instant end = now() + std::chrono::microseconds(60);
      if (order_.empty()) IoMailbox::of(io_).post([this] { order_ += 'f'; });
      order_ += 'c';
      while (now() < end) {
      }
      if (order_.size() == kMany + 1) io_.stop();
    }

   private:
    asio::io_context& io_;
    std::string& order_;
  };
  std::deque<Connection> connections;
  for (std::size_t i = 0; i < kMany; ++i) turns.add(connections.emplace_back(io, order), kCrowd);
  IoStretches stretches;
  run_io_loop(io, {.may_poll = [] { return false; }, .awaits_worker = [] { return false; }}, stretches);
  EXPECT_LE(order.find('f'), 2u) << order;
}

TEST(SlicesOfUsersTest, AUserWaitsForOneSliceOfEachOtherUser) {
  asio::io_context io;
  Slices slices(io.get_executor());
  std::string order;
  const auto work = [&order](char name) {
    return [&order, name](Instant) {
      order += name;
      return true;
    };
  };
  for (int i = 0; i < 1'000; ++i) slices.add(work('c'), kCrowd);
  slices.add(work('n'), kNeighbour);
  slices.add(work('n'), kNeighbour);
  slices.add(work('d'));
  io.run();
  EXPECT_EQ(order.size(), 1'003u);
  EXPECT_EQ(order.substr(0, 6), "cndcnc");
}

TEST(UserLinesTest, EachLineKeepsItsOrderHoweverLongItIs) {
  UserLines<int> lines;
  std::vector<int> next(3, 0);
  int added = 0;
  // Longer and longer, and then empty.
  for (int round = 0; round < 2'000; ++round) {
    for (LineNumber user = 0; user < 3; ++user) lines.push(user, added);
    ++added;
    if (round % 2 == 1) {
      const auto [user, item] = lines.pop();
      EXPECT_EQ(item, next[user]++);
    }
  }
  while (!lines.empty()) {
    const auto [user, item] = lines.pop();
    EXPECT_EQ(item, next[user]++);
  }
  EXPECT_EQ(next, std::vector<int>(3, added));
}

}  // namespace
}  // namespace locksley::daemon
