// Real checks on the real thread, with cheap hashes.
#include "daemon/auth/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/auth/check_queue.h"
#include "daemon/auth/password.h"

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

class AuthenticatorTest : public testing::Test {
 protected:
  void check(const std::string& source, const std::string& user, const std::string& hash,
             const std::string& password) {
    authenticator_->check(source, user, hash, password,
                          [=, this](Verdict verdict) { answers_.push_back(name(verdict) + " " + password); });
  }

  static std::string name(Verdict verdict) {
    switch (verdict) {
      case Verdict::kAccepted:
        return "accepted";
      case Verdict::kRefused:
        return "refused";
      case Verdict::kBusy:
        return "busy";
    }
    return "";
  }

  // Runs until so many checks are answered.
  void wait_for(std::size_t answers) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (answers_.size() < answers) {
      io_.restart();
      io_.run_one_for(1s);
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "waiting for " << answers << " answers";
    }
  }

  void wait_for_answer(const std::string& answer) {
    while (std::ranges::find(answers_, answer) == answers_.end()) {
      ASSERT_NO_FATAL_FAILURE(wait_for(answers_.size() + 1)) << "waiting for " << answer;
    }
  }

  asio::io_context io_;
  const decltype(asio::make_work_guard(io_)) work_ = asio::make_work_guard(io_);
  const std::string hash_ = hash_password("right", {8, 1}).value();
  std::vector<std::string> answers_;
  std::unique_ptr<Authenticator> authenticator_ = std::make_unique<Authenticator>(io_.get_executor());
};

TEST_F(AuthenticatorTest, TheRightPasswordIsAcceptedAndAWrongOneRefused) {
  check("a", "u", hash_, "right");
  check("b", "u", hash_, "wrong");
  EXPECT_TRUE(answers_.empty());  // nothing is remembered yet, and the call does not block
  wait_for(2);
  EXPECT_THAT(answers_, ElementsAre("accepted right", "refused wrong"));
  EXPECT_EQ(authenticator_->failures(), 1U);
}

TEST_F(AuthenticatorTest, WhatWasAcceptedIsAcceptedAtOnceFromAnywhere) {
  check("a", "u", hash_, "right");
  wait_for(1);
  check("a", "u", hash_, "right");
  check("b", "u", hash_, "right");
  EXPECT_EQ(answers_.size(), 3U);
  check("b", "u", hash_, "wrong");
  check("c", "other", hash_, "right");                             // not this user's
  check("d", "u", hash_password("new", {8, 1}).value(), "right");  // the old password is wrong now
  EXPECT_EQ(answers_.size(), 3U);
  wait_for(6);
  EXPECT_THAT(answers_, ElementsAre("accepted right", "accepted right", "accepted right", "refused wrong",
                                    "accepted right", "refused right"));
}

TEST_F(AuthenticatorTest, AWrongPasswordIsLookedAtEachTime) {
  check("a", "u", hash_, "wrong");
  wait_for(1);
  check("a", "u", hash_, "wrong");
  EXPECT_EQ(answers_.size(), 1U);
  wait_for(2);
  EXPECT_EQ(authenticator_->failures(), 2U);
}

TEST_F(AuthenticatorTest, NobodysPasswordIsCheckedAndRefusedWhateverItIs) {
  authenticator_->set_hashes({hash_});
  check("a", "nobody", "", "right");  // the password of another user
  EXPECT_TRUE(answers_.empty());
  check("a", "nobody", "", "");
  wait_for(2);
  EXPECT_THAT(answers_, ElementsAre("refused right", "refused "));
}

TEST_F(AuthenticatorTest, NobodysPasswordIsCheckedWhereThereAreNoUsers) {
  check("a", "nobody", "", "x");
  EXPECT_TRUE(answers_.empty());
  wait_for(1);
  EXPECT_THAT(answers_, ElementsAre("refused x"));
}

TEST_F(AuthenticatorTest, ARememberedPasswordIsNotSlowed) {
  check("a", "u", hash_, "right");
  wait_for(1);
  check("a", "u", hash_, "wrong");
  wait_for(2);
  check("a", "u", hash_, "right");
  EXPECT_THAT(answers_, ElementsAre("accepted right", "refused wrong", "accepted right"));
}

TEST_F(AuthenticatorTest, BesideManyThatWaitAPasswordAcceptedFromThereIsAcceptedAtOnce) {
  check("a", "u", hash_, "right");
  wait_for(1);
  for (std::size_t i = 0; i < 2 * CheckQueue::kMostOfUser; ++i) {
    check("a", "u", hash_, "wrong " + std::to_string(i));
    const std::size_t answers = answers_.size();
    check("a", "u", hash_, "right");
    EXPECT_EQ(answers_.size(), answers + 1);
    EXPECT_EQ(answers_.back(), "accepted right");
  }
}

TEST_F(AuthenticatorTest, BesideOneThatWaitsAPasswordAcceptedFromElsewhereIsChecked) {
  check("a", "u", hash_, "right");
  wait_for(1);
  check("b", "u", hash_, "wrong");
  check("b", "u", hash_, "right");
  EXPECT_EQ(answers_.size(), 1U);
  wait_for(3);
  EXPECT_THAT(answers_, ElementsAre("accepted right", "refused wrong", "accepted right"));
  check("b", "u", hash_, "another");
  check("b", "u", hash_, "right");  // now it was accepted from there
  EXPECT_EQ(answers_.size(), 4U);
}

TEST_F(AuthenticatorTest, GuessesForOneUserDelayTheFirstPasswordOfAnotherByAFewChecks) {
  for (std::size_t i = 0; i < 2 * CheckQueue::kMostOfUser; ++i) {
    check("a", "u", hash_, "wrong " + std::to_string(i));
  }
  check("a", "v", hash_, "right");
  wait_for_answer("accepted right");
  EXPECT_LE(std::ranges::count_if(answers_, [](const auto& answer) { return answer.starts_with("refused"); }),
            3);
}

TEST_F(AuthenticatorTest, AClientThatIsTurnedAwayLearnsItLater) {
  for (std::size_t i = 0; i <= CheckQueue::kMostOfUser; ++i) check("a", "u", hash_, std::to_string(i));
  const auto start = std::chrono::steady_clock::now();
  check("a", "u", hash_, "one more");
  check("a", "u", hash_, "two more");
  wait_for_answer("busy two more");
  EXPECT_THAT(answers_, Contains("busy one more"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 1s);
}

TEST_F(AuthenticatorTest, AnIpv6NetworkIsOneSource) {
  for (std::size_t i = 0; i <= CheckQueue::kMostOfUser; ++i) {
    check("2001:db8::" + std::to_string(i), "u", hash_, std::to_string(i));  // the first is under way
  }
  EXPECT_TRUE(answers_.empty());
  check("2001:db8:0:0:ffff::1", "u", hash_, "one more");
  check("2001:db8:0:1::1", "u", hash_, "of another");
  wait_for_answer("busy one more");
  EXPECT_THAT(answers_, Not(Contains("busy of another")));
}

TEST_F(AuthenticatorTest, APasswordTooLongForAnybodyIsRefused) {
  check("a", "u", hash_, std::string(kLongestPassword + 1, 'x'));
  wait_for(1);
  EXPECT_EQ(answers_[0].substr(0, 9), "refused x");
}

TEST_F(AuthenticatorTest, AnAnswerMayAskAgain) {
  int answers = 0;
  authenticator_->check("a", "u", hash_, "right", [&](Verdict) {
    ++answers;
    authenticator_->check("a", "u", hash_, "right", [&](Verdict) { ++answers; });
  });
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (answers < 2 && std::chrono::steady_clock::now() < deadline) io_.run_one_for(1s);
  EXPECT_EQ(answers, 2);
}

TEST_F(AuthenticatorTest, AtTheEndChecksThatWaitAreForgotten) {
  check("a", "u", hash_, "wrong");
  wait_for(1);
  check("a", "u", hash_, "slowed");
  check("b", "u", hash_, "under way");
  check("b", "u", hash_, "waits");
  authenticator_.reset();
  io_.poll();
  EXPECT_EQ(answers_.size(), 1U);
}

}  // namespace
}  // namespace locksley::daemon
