#include "core/base/result_account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace locksley {
namespace {

class ResultAccountTest : public testing::Test {
 protected:
  ResultAccountTest() {
    all.on_change([this] { ++changes; });
  }
  ResultAccount all;
  ResultAccount user{&all};
  ResultAccount other{&all};
  std::atomic<int> changes = 0;
};

TEST_F(ResultAccountTest, WhatIsChargedToAUserIsChargedToAll) {
  user.charge(10);
  other.charge(5);
  EXPECT_EQ(user.bytes(), 10U);
  EXPECT_EQ(all.bytes(), 15U);
  user.refund(10);
  EXPECT_EQ(all.bytes(), 5U);
  EXPECT_FALSE(user.is_full());
  EXPECT_EQ(changes, 0);
}

TEST_F(ResultAccountTest, IsFullAtItsLimitAndSaysSoOnce) {
  user.set_limit(100);
  user.charge(99);
  EXPECT_FALSE(user.is_full());
  user.charge(1);
  EXPECT_TRUE(user.is_full());
  EXPECT_FALSE(other.is_full());
  EXPECT_EQ(changes, 1);
  user.charge(1);
  EXPECT_EQ(changes, 1);
  user.refund(2);
  EXPECT_EQ(changes, 1) << "no lane waits for room";
  user.charge(2);
  EXPECT_EQ(changes, 2);
}

TEST_F(ResultAccountTest, WhoWaitsForRoomIsToldOnce) {
  user.set_limit(100);
  user.charge(120);
  changes = 0;
  EXPECT_TRUE(user.is_full_and_awaited());
  user.refund(20);
  EXPECT_EQ(changes, 0);
  user.refund(1);
  EXPECT_EQ(changes, 1);
  user.refund(1);
  EXPECT_EQ(changes, 1);
  EXPECT_FALSE(user.is_full_and_awaited());
}

TEST_F(ResultAccountTest, WhereAllAreFullAUserWithLittleGoesOn) {
  all.set_limit(100);
  for (ResultAccount* account : {&user, &other}) account->set_limit(80, /*spare_bytes=*/10);
  user.charge(60);
  other.charge(10);
  EXPECT_FALSE(user.is_full());
  user.charge(30);
  EXPECT_TRUE(user.is_full()) << "its limit";
  user.refund(20);
  user.charge(20);
  EXPECT_TRUE(all.is_full());
  EXPECT_TRUE(user.is_full());
  EXPECT_FALSE(other.is_full()) << "it has no more than its spare bytes";
  other.charge(1);
  EXPECT_TRUE(other.is_full());
  EXPECT_TRUE(other.is_full_and_awaited());
  changes = 0;
  user.refund(30);
  EXPECT_EQ(changes, 1) << "another user's refund makes room for this one";
  EXPECT_FALSE(other.is_full());
}

TEST_F(ResultAccountTest, AHigherLimitIsRoom) {
  user.set_limit(10);
  user.charge(10);
  EXPECT_TRUE(user.is_full());
  user.set_limit(11);
  EXPECT_FALSE(user.is_full());
}

TEST_F(ResultAccountTest, AChargeIsGivenBackWithItsHolder) {
  {
    ResultAccount::Charge charge(&user);
    charge.set(10);
    charge.set(30);
    EXPECT_EQ(all.bytes(), 30U);
    charge.set(20);
    EXPECT_EQ(user.bytes(), 20U);
    ResultAccount::Charge nothing(nullptr);
    nothing.set(5);
  }
  EXPECT_EQ(user.bytes(), 0U);
  EXPECT_EQ(all.bytes(), 0U);
}

// A lane that finds the account full and waits is told of the room, whichever of the two threads is
// faster.
TEST_F(ResultAccountTest, NoRoomIsMissed) {
  user.set_limit(1);
  for (int round = 0; round < 100; ++round) {
    user.charge(1);
    changes = 0;
    std::atomic<int> ready = 0;
    const auto together = [&ready] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    bool is_waiting = false;
    std::thread waiter([&] {
      together();
      is_waiting = user.is_full_and_awaited();
    });
    together();
    user.refund(1);
    waiter.join();
    if (is_waiting) {
      EXPECT_EQ(changes, 1);
    }
    (void)user.is_full_and_awaited();
    if (changes == 0) {
      // The mark stays; the next refund that makes room clears it.
      user.charge(1);
      user.refund(1);
    }
  }
}

}  // namespace
}  // namespace locksley
