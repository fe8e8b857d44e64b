// Whose password is looked at next, and when. Times are made up: nothing waits.
#include "daemon/auth/check_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;

class CheckQueueTest : public testing::Test {
 protected:
  CheckQueue::Check check(const std::string& source, const std::string& password) {
    CheckQueue::Check result;
    result.source = source;
    result.hash = "h";
    result.password = Secret(std::string(password));
    result.digest = digests_.digest("u", "h", password);
    result.askers.push_back([](Verdict) {});
    return result;
  }

  // Returns how many were told that it is too much.
  std::size_t put(const std::string& source, const std::string& password) {
    return queue_.put(check(source, password)).size();
  }

  // "source password" of the next; "" if none is due.
  std::string take() {
    const CheckQueue::Check* next = queue_.take(now_);
    return next == nullptr ? "" : next->source + " " + std::string(next->password.view());
  }

  // Takes the next, and finishes it.
  std::string next(Verdict verdict) {
    std::string taken = take();
    if (!taken.empty()) (void)queue_.finish(verdict, now_);
    return taken;
  }

  AcceptedPasswords digests_;
  CheckQueue queue_;
  CheckQueue::Time now_{1000h};
};

TEST_F(CheckQueueTest, SourcesTakeTurns) {
  put("a", "1");
  put("a", "2");
  put("a", "3");
  put("b", "4");
  put("c", "5");
  put("c", "6");
  std::vector<std::string> order;
  for (int i = 0; i < 7; ++i) order.push_back(next(Verdict::kAccepted));
  EXPECT_THAT(order, ElementsAre("a 1", "b 4", "c 5", "a 2", "c 6", "a 3", ""));
}

TEST_F(CheckQueueTest, OneIsTakenAtATime) {
  put("a", "1");
  put("b", "2");
  EXPECT_EQ(take(), "a 1");
  EXPECT_EQ(take(), "");
  EXPECT_EQ(queue_.next_due(), std::nullopt);
  EXPECT_EQ(queue_.finish(Verdict::kRefused, now_).size(), 1U);
  EXPECT_EQ(take(), "b 2");
}

TEST_F(CheckQueueTest, ASourceThatFailedWaitsAndOthersDoNot) {
  put("a", "1");
  EXPECT_EQ(next(Verdict::kRefused), "a 1");
  put("a", "2");
  put("b", "3");
  EXPECT_EQ(next(Verdict::kRefused), "b 3");
  EXPECT_EQ(next(Verdict::kRefused), "");
  EXPECT_EQ(queue_.next_due(), now_ + Slowdown::kFirst);
  now_ += Slowdown::kFirst - 1ns;
  EXPECT_EQ(next(Verdict::kRefused), "");
  now_ += 1ns;
  EXPECT_EQ(next(Verdict::kRefused), "a 2");
  put("a", "3");
  EXPECT_EQ(queue_.next_due(), now_ + 2 * Slowdown::kFirst);
}

TEST_F(CheckQueueTest, WhoAsksTheSameWaitsForOneCheck) {
  put("a", "1");
  put("a", "1");
  EXPECT_EQ(take(), "a 1");
  put("a", "1");  // while it is under way
  EXPECT_EQ(queue_.size(), 0U);
  EXPECT_EQ(queue_.finish(Verdict::kRefused, now_).size(), 3U);
}

TEST_F(CheckQueueTest, AnotherSourceThatGuessesTheSameIsCheckedByItself) {
  put("a", "1");
  put("b", "1");
  EXPECT_EQ(take(), "a 1");
  EXPECT_EQ(queue_.finish(Verdict::kRefused, now_).size(), 1U);
  EXPECT_EQ(take(), "b 1");
}

TEST_F(CheckQueueTest, AllThatGaveTheRightPasswordAreAcceptedAtOnce) {
  put("a", "1");
  EXPECT_EQ(next(Verdict::kRefused), "a 1");
  put("a", "right");  // slowed
  put("b", "right");
  put("b", "2");
  EXPECT_EQ(take(), "b right");
  EXPECT_EQ(queue_.finish(Verdict::kAccepted, now_).size(), 2U);
  EXPECT_EQ(queue_.size(), 1U);
  EXPECT_EQ(take(), "b 2");
}

TEST_F(CheckQueueTest, WhereOnePasswordWaitsNoOtherIsLookedUp) {
  EXPECT_TRUE(queue_.may_look_up("a", now_));
  put("a", "1");
  EXPECT_FALSE(queue_.may_look_up("a", now_));
  EXPECT_TRUE(queue_.may_look_up("b", now_));
  EXPECT_EQ(take(), "a 1");
  EXPECT_FALSE(queue_.may_look_up("a", now_));
  (void)queue_.finish(Verdict::kAccepted, now_);
  EXPECT_TRUE(queue_.may_look_up("a", now_));
}

TEST_F(CheckQueueTest, ASourceHasABoundOfItsOwn) {
  for (std::size_t i = 0; i < CheckQueue::kMostOfSource; ++i) EXPECT_EQ(put("a", std::to_string(i)), 0U);
  EXPECT_EQ(put("a", "more"), 1U);
  EXPECT_EQ(put("a", "0"), 0U);  // no check of its own
  EXPECT_EQ(put("b", "1"), 0U);
}

TEST_F(CheckQueueTest, WhenAllIsFullTheSourceWithMostGivesWay) {
  std::size_t sources = 0;
  while (queue_.size() + CheckQueue::kMostOfSource <= CheckQueue::kMost) {
    for (std::size_t i = 0; i < CheckQueue::kMostOfSource; ++i) {
      put("many" + std::to_string(sources), std::to_string(sources) + "/" + std::to_string(i));
    }
    ++sources;
  }
  while (queue_.size() < CheckQueue::kMost) {
    put("few" + std::to_string(sources), std::to_string(sources));
    ++sources;
  }
  EXPECT_EQ(put("new", "1"), 1U);  // somebody's
  EXPECT_EQ(queue_.size(), CheckQueue::kMost);
  std::vector<std::string> taken;
  for (std::string one = next(Verdict::kAccepted); !one.empty(); one = next(Verdict::kAccepted)) {
    taken.push_back(one);
  }
  EXPECT_THAT(taken, Contains("new 1"));
  EXPECT_THAT(taken, Contains("few10 10"));
}

TEST_F(CheckQueueTest, WhenAllIsFullOfOneEachTheNewOneGivesWay) {
  for (std::size_t i = 0; i < CheckQueue::kMost; ++i) EXPECT_EQ(put("s" + std::to_string(i), "1"), 0U);
  EXPECT_EQ(put("new", "1"), 1U);
  EXPECT_EQ(queue_.size(), CheckQueue::kMost);
}

TEST_F(CheckQueueTest, TheNumberWhoAskTheSameIsBounded) {
  for (std::size_t i = 0; i < CheckQueue::kMostAskers; ++i) ASSERT_EQ(put("a", "1"), 0U);
  EXPECT_EQ(put("a", "1"), 1U);
  EXPECT_EQ(next(Verdict::kRefused), "a 1");
  EXPECT_EQ(put("a", "1"), 0U);
}

class SlowdownTest : public testing::Test {
 protected:
  std::chrono::nanoseconds delay(const std::string& source) const { return slowdown_.due(source) - now_; }

  Slowdown slowdown_{3};
  Slowdown::Time now_{1000h};
};

TEST_F(SlowdownTest, EachFailureDoublesTheDelayUpToABound) {
  EXPECT_LT(slowdown_.due("a"), now_);
  std::vector<std::chrono::nanoseconds> delays;
  for (int i = 0; i < 7; ++i) {
    slowdown_.failed("a", now_);
    delays.push_back(delay("a"));
  }
  EXPECT_THAT(delays, ElementsAre(100ms, 200ms, 400ms, 800ms, 1600ms, 1600ms, 1600ms));
  EXPECT_LT(slowdown_.due("b"), now_);
}

TEST_F(SlowdownTest, ASourceThatFailedMayLookUpOnceInAWhile) {
  EXPECT_TRUE(slowdown_.may_look_up("a", now_));
  EXPECT_TRUE(slowdown_.may_look_up("a", now_));
  slowdown_.failed("a", now_);
  EXPECT_TRUE(slowdown_.may_look_up("a", now_));
  EXPECT_FALSE(slowdown_.may_look_up("a", now_));
  EXPECT_TRUE(slowdown_.may_look_up("b", now_));
  now_ += Slowdown::kFirst;
  EXPECT_TRUE(slowdown_.may_look_up("a", now_));
  EXPECT_FALSE(slowdown_.may_look_up("a", now_));
  now_ += Slowdown::kForgotten;
  EXPECT_TRUE(slowdown_.may_look_up("a", now_));
  EXPECT_TRUE(slowdown_.may_look_up("a", now_));
}

TEST_F(SlowdownTest, AQuietMinuteIsForgiven) {
  for (int i = 0; i < 7; ++i) slowdown_.failed("a", now_);
  now_ += Slowdown::kForgotten;
  slowdown_.failed("a", now_);
  EXPECT_EQ(delay("a"), 100ms);
}

TEST_F(SlowdownTest, TheTableIsBoundedAndTheOldestFailureGoes) {
  for (const char* source : {"a", "b", "c", "a", "d"}) slowdown_.failed(source, now_ += 1ms);
  EXPECT_EQ(slowdown_.size(), 3U);
  EXPECT_LT(slowdown_.due("b"), now_);
  EXPECT_GT(slowdown_.due("a"), now_);
}

TEST(AcceptedPasswordsTest, DigestsTellUserHashAndPasswordApart) {
  const AcceptedPasswords accepted;
  const auto digest = accepted.digest("user", "hash", "password");
  EXPECT_EQ(digest, accepted.digest("user", "hash", "password"));
  EXPECT_NE(digest, accepted.digest("use", "rhash", "password"));
  EXPECT_NE(digest, accepted.digest("user", "hashp", "assword"));
  EXPECT_NE(digest, accepted.digest("user", "other", "password"));
  EXPECT_NE(digest, AcceptedPasswords().digest("user", "hash", "password"));  // by another key
}

TEST(AcceptedPasswordsTest, TheLeastRecentlyUsedIsForgotten) {
  AcceptedPasswords accepted(2);
  const auto digest = [&](const char* name) { return accepted.digest(name, "", ""); };
  accepted.remember(digest("a"));
  accepted.remember(digest("b"));
  EXPECT_TRUE(accepted.knows(digest("a")));
  accepted.remember(digest("c"));
  EXPECT_TRUE(accepted.knows(digest("a")));
  EXPECT_FALSE(accepted.knows(digest("b")));
  EXPECT_TRUE(accepted.knows(digest("c")));
}

}  // namespace
}  // namespace locksley::daemon
