#include "daemon/worker_port/input_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <optional>
#include <string>

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kLittle = InputBudget::kLittle;
constexpr std::uint64_t kMost = 1'200 * kLittle;

// A connection that may hold a part of a command. As its session, it waits if it may not read.
struct Peer final : InputBudget::Owner {
  Peer(InputBudget& budget, const std::string& user) : share(budget, *this) {
    if (!user.empty()) share.set_user(user);
  }
  void input_has_room() override { ++woken; }
  void free_input() override {
    is_closed = true;
    set(0);
  }
  void set(std::uint64_t to) {
    bytes = to;
    share.set(to);
  }
  // One read of `size` bytes. False: it has to wait.
  bool read(std::uint64_t size = kLittle) {
    const auto room = share.room(awaited);
    is_too_large = !room;
    if (room && *room == 0) share.wait();
    if (!room || *room < size) return false;
    share.received(size);
    awaited -= std::min(awaited, size);
    set(bytes + size);
    return true;
  }
  void read_all() {
    while (!is_closed && read()) {
    }
  }
  void end_command() {
    share.ended_command();
    set(0);
  }

  std::uint64_t bytes = 0;
  std::uint64_t awaited = 0;
  int woken = 0;
  bool is_closed = false;
  bool is_too_large = false;
  InputBudget::Share share;
};

class InputBudgetTest : public ::testing::Test {
 protected:
  bool look(Peer& peer) {
    budget.begin_look();
    return peer.share.is_stuck();
  }
  InputBudget budget{kMost};
};

TEST_F(InputBudgetTest, TheFirstOfAUserGoesOnToHalfOfTheBudgetAndItsOthersWaitBeforeThat) {
  Peer first(budget, "alice");
  Peer second(budget, "alice");
  EXPECT_TRUE(first.read());
  second.read_all();
  EXPECT_TRUE(second.share.is_waiting());
  EXPECT_GE(budget.used(), kMost / 4);
  EXPECT_LE(budget.used(), kMost / 4 + kLittle);
  for (std::uint64_t left = kMost / 4; left > kLittle; left -= kLittle) EXPECT_TRUE(first.read());
  EXPECT_FALSE(second.is_closed);
  EXPECT_EQ(second.woken, 0);
}

TEST_F(InputBudgetTest, WhoWaitsGoesOnOnceTheFirstHasEnded) {
  Peer first(budget, "alice");
  Peer second(budget, "alice");
  Peer third(budget, "alice");
  for (std::uint64_t left = kMost / 4; left > kLittle; left -= kLittle) first.read();
  for (Peer* const peer : {&second, &third}) peer->read_all();
  EXPECT_TRUE(second.share.is_waiting());
  EXPECT_TRUE(third.share.is_waiting());
  first.end_command();
  EXPECT_EQ(second.woken, 1);
  EXPECT_EQ(third.woken, 0) << "it goes on as the second one reads";
  EXPECT_TRUE(second.read());
  EXPECT_EQ(third.woken, 1);
}

TEST_F(InputBudgetTest, AConnectionThatHoldsLittleReadsOnWhateverOthersHold) {
  Peer first(budget, "alice");
  Peer second(budget, "alice");
  first.read();
  second.read_all();
  for (int i = 0; i < 100; ++i) {
    Peer small(budget, "alice");
    EXPECT_TRUE(small.read(kLittle - 1));
    EXPECT_FALSE(small.read());
  }
}

TEST_F(InputBudgetTest, TwoLargeArgumentsOfOneUserDoNotBothComeHalf) {
  Peer first(budget, "alice");
  Peer second(budget, "alice");
  Peer third(budget, "alice");
  first.read();
  EXPECT_TRUE(third.read());
  second.awaited = third.awaited = kMost / 5;
  for (std::uint64_t left = kMost / 8; left > kLittle; left -= kLittle) ASSERT_TRUE(second.read());
  EXPECT_FALSE(third.read());
}

TEST_F(InputBudgetTest, CommandsOfOneConnectionDoNotStayTheFirst) {
  Peer first(budget, "alice");
  Peer second(budget, "alice");
  first.read();
  second.read_all();
  first.share.ended_command();
  first.set(2 * kLittle);  // of its next one, which came with the end of the last one
  EXPECT_EQ(second.woken, 1);
  EXPECT_TRUE(second.read());
  first.read_all();
  EXPECT_TRUE(first.share.is_waiting());
}

TEST_F(InputBudgetTest, HoweverMuchOthersHoldTheNextUserFindsRoom) {
  std::list<Peer> peers;
  for (const std::string user : {"", "alice", "bob", "carol", "dave", "erin"}) {
    for (int i = 0; i < 2; ++i) peers.emplace_back(budget, user).read_all();
    EXPECT_GT(peers.back().bytes + std::prev(peers.end(), 2)->bytes, kLittle) << user;
  }
  EXPECT_LE(budget.used(), kMost);
}

TEST_F(InputBudgetTest, TheLastOfTheUserGivesWayIfTheFirstOfAllNeedsItsRoom) {
  Peer first(budget, "alice");
  Peer second(budget, "alice");
  Peer third(budget, "alice");
  Peer other(budget, "bob");
  first.read();
  for (int i = 0; i < 50; ++i) second.read();
  third.read_all();
  other.read();
  while (first.bytes < kMost / 2 - 55 * kLittle) ASSERT_TRUE(first.read());
  EXPECT_TRUE(third.is_closed);
  EXPECT_FALSE(second.is_closed);
  EXPECT_FALSE(other.is_closed);
  while (first.bytes < kMost / 2) ASSERT_TRUE(first.read());
  EXPECT_TRUE(second.is_closed);
  EXPECT_FALSE(other.is_closed);
  first.read_all();
  EXPECT_TRUE(first.is_too_large) << "for the user alone";
}

TEST_F(InputBudgetTest, TheFirstsOfTwoUsersDoNotWaitForEachOther) {
  Peer first(budget, "alice");
  Peer second(budget, "bob");
  bool reads = true;
  for (int i = 0; i < 10'000 && reads; ++i) {
    reads = first.bytes < kMost / 2 && first.read();
    second.read();
  }
  EXPECT_GE(first.bytes, kMost / 2);
  EXPECT_TRUE(second.share.is_waiting());
  EXPECT_FALSE(second.is_closed);
  first.end_command();
  EXPECT_EQ(second.woken, 1);
  while (second.bytes < kMost / 2) ASSERT_TRUE(second.read());
}

TEST_F(InputBudgetTest, OneOfWhichTooLittleComesGivesWayIfOthersOfItsUserWait) {
  Peer stuck(budget, "alice");
  Peer slow(budget, "alice");
  Peer waits(budget, "alice");
  Peer other(budget, "bob");
  for (Peer* const peer : {&stuck, &slow, &other}) peer->read();
  for (int i = 0; i < 2 * InputBudget::kPatience; ++i) EXPECT_FALSE(look(stuck)) << "none waits";
  waits.read_all();
  ASSERT_TRUE(waits.share.is_waiting());
  for (int i = 1; i < InputBudget::kPatience; ++i) {
    EXPECT_FALSE(look(stuck));
    EXPECT_FALSE(look(slow));
    if (i % 4 == 0) slow.share.received(InputBudget::kLeastProgress);
  }
  EXPECT_TRUE(look(stuck));
  EXPECT_FALSE(look(slow));
  for (int i = 0; i < 2 * InputBudget::kPatience; ++i) {
    EXPECT_FALSE(look(waits)) << "it is not read";
    EXPECT_FALSE(look(other)) << "of another user, whose room is enough for the first of this one";
  }
}

TEST_F(InputBudgetTest, OneOfWhichTooLittleComesGivesWayToTheFirstOfAnotherUser) {
  Peer stuck(budget, "alice");
  Peer waits(budget, "bob");
  while (stuck.bytes < kMost / 3) stuck.read();
  waits.read_all();
  ASSERT_TRUE(waits.share.is_waiting());
  look(stuck);  // much had come
  for (int i = 1; i < InputBudget::kPatience; ++i) EXPECT_FALSE(look(stuck));
  EXPECT_TRUE(look(stuck));
  stuck.free_input();
  EXPECT_EQ(waits.woken, 1);
}

TEST_F(InputBudgetTest, WhatAConnectionHadIsFreeAfterIt) {
  std::optional<Peer> first(std::in_place, budget, "alice");
  Peer second(budget, "alice");
  first->read();
  second.read_all();
  ASSERT_TRUE(second.share.is_waiting());
  first.reset();
  EXPECT_EQ(budget.used(), second.bytes);
  EXPECT_EQ(second.woken, 1);
}

TEST_F(InputBudgetTest, StrangersAreOneUserUntilTheyLogInAndNoneOfThemIsFirst) {
  Peer first(budget, "");
  Peer second(budget, "");
  for (std::uint64_t i = 0; i < kMost / kLittle; ++i) {
    first.read();
    second.read();
  }
  EXPECT_LE(budget.used(), kMost / 4 + kLittle);
  EXPECT_FALSE(first.read());
  EXPECT_TRUE(first.share.is_waiting());
  second.share.set_user("alice");
  EXPECT_EQ(first.woken, 1);
  while (second.bytes < kMost / 4) ASSERT_TRUE(second.read());
}

// Small commands have no place in the order, so none of them gives way for the first of all.
TEST_F(InputBudgetTest, SmallCommandsThatStopGiveWayIfTheFirstOfAllWaits) {
  std::list<Peer> small;
  while (budget.used() + 2 * kLittle <= kMost) {
    ASSERT_TRUE(small.emplace_back(budget, "bob").read(kLittle - 1));
  }
  Peer first(budget, "alice");
  EXPECT_TRUE(first.read());
  for (int looks = 1; looks < InputBudget::kPatience; ++looks) {
    while (first.read()) {
    }
    budget.begin_look();
    for (Peer& peer : small) EXPECT_FALSE(peer.share.is_stuck());
  }
  while (first.read()) {
  }
  budget.begin_look();
  EXPECT_TRUE(small.front().share.is_stuck());
}

}  // namespace
}  // namespace locksley::daemon
