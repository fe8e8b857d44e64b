// The order and the times of checks. The tests choose the time: nothing waits.
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
  CheckQueue::Check check(const std::string& source, const std::string& password,
                          const std::string& user = "u") {
    CheckQueue::Check result;
    result.source = source;
    result.user = user;
    result.hash = "h";
    result.password = Secret(std::string(password));
    result.digest = digests_.digest(user, "h", password);
    result.askers.push_back([](Verdict) {});
    return result;
  }

  // Returns the number of refused askers.
  std::size_t put(const std::string& source, const std::string& password) {
    return queue_.put(check(source, password)).size();
  }

  std::size_t put_for(const std::string& user, const std::string& password, const std::string& source = "a") {
    return queue_.put(check(source, password, user)).size();
  }

  // "source password" of the next check; "" if none is due.
  std::string take() {
    const CheckQueue::Check* next = queue_.take(now_);
    return next == nullptr ? "" : next->source + " " + std::string(next->password.view());
  }

  // Takes the next check and finishes it.
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

TEST_F(CheckQueueTest, UsersOfASourceTakeTurns) {
  put_for("u", "1");
  put_for("u", "2");
  put_for("v", "3");
  put_for("w", "4");
  put("b", "5");
  std::vector<std::string> order;
  for (int i = 0; i < 6; ++i) order.push_back(next(Verdict::kAccepted));
  EXPECT_THAT(order, ElementsAre("a 1", "b 5", "a 3", "a 4", "a 2", ""));
}

TEST_F(CheckQueueTest, GuessesForOneUserDelayAnotherUserOfTheSourceByOneCheck) {
  for (int i = 0; i < 10; ++i) {  // the guesses for u are slowed as much as any can be
    put_for("u", "wrong " + std::to_string(i));
    now_ += Slowdown::kLongest;
    EXPECT_EQ(next(Verdict::kRefused), "a wrong " + std::to_string(i));
  }
  for (std::size_t i = 0; i < CheckQueue::kMostOfUser; ++i) put_for("u", "guess " + std::to_string(i));
  EXPECT_EQ(put_for("u", "one more"), 1U);
  EXPECT_EQ(put_for("v", "right"), 0U);
  EXPECT_EQ(queue_.next_due(), now_ + Slowdown::kFirst);
  now_ += Slowdown::kFirst;
  EXPECT_EQ(next(Verdict::kAccepted), "a right");
  EXPECT_EQ(queue_.next_due(), now_ - Slowdown::kFirst + Slowdown::kLongest);
}

TEST_F(CheckQueueTest, GuessesForManyUsersFromOneSourceAreSpaced) {
  put_for("u", "1");
  put_for("v", "2");
  put_for("w", "3");
  EXPECT_EQ(next(Verdict::kRefused), "a 1");
  EXPECT_EQ(next(Verdict::kRefused), "");
  now_ += Slowdown::kFirst;
  EXPECT_EQ(next(Verdict::kRefused), "a 2");
  now_ += Slowdown::kFirst;
  EXPECT_EQ(next(Verdict::kRefused), "a 3");
}

TEST_F(CheckQueueTest, WhenASourceIsFullItsUserWithMostGivesWay) {
  std::size_t users = 0;
  for (; users * CheckQueue::kMostOfUser < CheckQueue::kMostOfSource; ++users) {
    for (std::size_t i = 0; i < CheckQueue::kMostOfUser; ++i) {
      const std::string name = "u" + std::to_string(users);
      if (queue_.size() < CheckQueue::kMostOfSource) put_for(name, name + "/" + std::to_string(i));
    }
  }
  EXPECT_EQ(queue_.size(), CheckQueue::kMostOfSource);
  EXPECT_EQ(put_for("new", "1"), 1U);  // the last of another user
  EXPECT_EQ(queue_.size(), CheckQueue::kMostOfSource);
  EXPECT_EQ(put("b", "2"), 0U);
  std::vector<std::string> taken;
  for (std::string one = next(Verdict::kAccepted); !one.empty(); one = next(Verdict::kAccepted)) {
    taken.push_back(one);
  }
  EXPECT_THAT(taken, Contains("a 1"));
  EXPECT_EQ(taken.size(), CheckQueue::kMostOfSource + 1);
}

TEST_F(CheckQueueTest, WhenASourceIsFullOfOneEachTheNewOneGivesWay) {
  for (std::size_t i = 0; i < CheckQueue::kMostOfSource; ++i) {
    EXPECT_EQ(put_for("u" + std::to_string(i), "1"), 0U);
  }
  EXPECT_EQ(put_for("new", "1"), 1U);
  EXPECT_EQ(put("b", "1"), 0U);
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
  put("a", "1");  // while the first check is under way
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
  put("a", "right");  // delayed
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

TEST_F(CheckQueueTest, AUserHasABoundOfItsOwnAtEachSource) {
  for (std::size_t i = 0; i < CheckQueue::kMostOfUser; ++i) EXPECT_EQ(put("a", std::to_string(i)), 0U);
  EXPECT_EQ(put("a", "more"), 1U);
  EXPECT_EQ(put("a", "0"), 0U);  // joins the check that waits
  EXPECT_EQ(put("b", "1"), 0U);
}

TEST_F(CheckQueueTest, WhenAllIsFullTheSourceWithMostGivesWay) {
  std::size_t sources = 0;
  while (queue_.size() + CheckQueue::kMostOfUser <= CheckQueue::kMost) {
    for (std::size_t i = 0; i < CheckQueue::kMostOfUser; ++i) {
      put("many" + std::to_string(sources), std::to_string(sources) + "/" + std::to_string(i));
    }
    ++sources;
  }
  while (queue_.size() < CheckQueue::kMost) {
    put("few" + std::to_string(sources), std::to_string(sources));
    ++sources;
  }
  EXPECT_EQ(put("new", "1"), 1U);  // a new source
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
  EXPECT_NE(digest,
            AcceptedPasswords().digest("user", "hash", "password"));  // another object has another key
}

TEST(AcceptedPasswordsTest, TheLeastRecentlyUsedIsForgotten) {
  AcceptedPasswords accepted(2);
  const auto digest = [&](const char* name) { return accepted.digest(name, "", ""); };
  accepted.remember(digest("a"), "x");
  accepted.remember(digest("b"), "x");
  EXPECT_TRUE(accepted.knows(digest("a")));
  accepted.remember(digest("c"), "x");
  EXPECT_TRUE(accepted.knows(digest("a")));
  EXPECT_FALSE(accepted.knows(digest("b")));
  EXPECT_TRUE(accepted.knows(digest("c")));
}

TEST(AcceptedPasswordsTest, APasswordIsKnownFromItsLastSourcesOnly) {
  AcceptedPasswords accepted;
  const auto digest = accepted.digest("user", "hash", "password");
  const auto source = [](std::size_t i) { return "source " + std::to_string(i); };
  EXPECT_FALSE(accepted.knows_from(digest, source(0)));
  for (std::size_t i = 0; i < AcceptedPasswords::kMostSources; ++i) accepted.remember(digest, source(i));
  EXPECT_TRUE(accepted.knows_from(digest, source(0)));  // and source 1 is the one used least recently
  accepted.remember(digest, "new");
  EXPECT_TRUE(accepted.knows_from(digest, source(0)));
  EXPECT_FALSE(accepted.knows_from(digest, source(1)));
  EXPECT_TRUE(accepted.knows_from(digest, "new"));
  EXPECT_TRUE(accepted.knows(digest));
}

}  // namespace
}  // namespace locksley::daemon
