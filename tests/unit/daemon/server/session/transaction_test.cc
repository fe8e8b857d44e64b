// The queue of MULTI: what it holds, and what it costs the account.
#include "daemon/server/session/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace locksley::daemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

proto::Command command_of(const std::vector<std::string_view>& words) {
  return {proto::ArgumentList::copy_of(words)};
}

class TransactionTest : public ::testing::Test {
 protected:
  // As the session does.
  std::string queue(const std::vector<std::string_view>& words) {
    std::string error = transaction_.queue(command_of(words), alice_);
    charge();
    return error;
  }
  void charge() {
    alice_.refund(Resource::kClientBytes, charged_);
    charged_ = transaction_.memory_bytes();
    alice_.charge(Resource::kClientBytes, charged_);
  }

  Account all_;
  Account alice_{&all_, "users.alice."};
  std::uint64_t charged_ = 0;
  Transaction transaction_;
};

TEST_F(TransactionTest, GivesTheCommandsBackInTheirOrderAndFreesEach) {
  transaction_.open();
  for (const char* word : {"a", "b", "c"}) EXPECT_EQ(queue({"ECHO", word}), "");
  EXPECT_EQ(transaction_.size(), 3u);
  transaction_.run();
  EXPECT_FALSE(transaction_.is_open());
  std::uint64_t left = transaction_.memory_bytes();
  for (const char* word : {"a", "b", "c"}) {
    EXPECT_EQ(transaction_.next().arguments[1], word);
    EXPECT_LT(transaction_.memory_bytes(), left);
    left = transaction_.memory_bytes();
  }
  EXPECT_EQ(left, 0u);
  transaction_.close();
  EXPECT_FALSE(transaction_.is_running());
  transaction_.open();
  EXPECT_EQ(transaction_.size(), 0u);
}

TEST_F(TransactionTest, ASpoiledOneKeepsNothing) {
  transaction_.spoil();
  transaction_.open();
  EXPECT_FALSE(transaction_.is_spoiled()) << "only an open one can be spoiled";
  queue({"ECHO", "a"});
  transaction_.spoil();
  EXPECT_EQ(queue({"ECHO", "b"}), "");
  EXPECT_TRUE(transaction_.is_spoiled());
  EXPECT_EQ(transaction_.size(), 0u);
  EXPECT_EQ(transaction_.memory_bytes(), 0u);
  transaction_.close();
  transaction_.open();
  EXPECT_FALSE(transaction_.is_spoiled());
}

TEST_F(TransactionTest, ACommandBeyondTheUsersLimitSpoilsItAndTheErrorNamesTheLimit) {
  alice_.set_limit(Resource::kClientBytes, 10'000);
  transaction_.open();
  EXPECT_EQ(queue({"ECHO", std::string(4'000, 'x')}), "");
  EXPECT_THAT(queue({"ECHO", std::string(8'000, 'x')}),
              AllOf(StartsWith("TOOBIG "), HasSubstr("users.alice.client_memory is 10000")));
  EXPECT_TRUE(transaction_.is_spoiled());
  EXPECT_EQ(alice_.used(Resource::kClientBytes), 0u);
}

TEST_F(TransactionTest, WhatOthersHoldCountsForTheLimitOfAll) {
  all_.set_limit(Resource::kClientBytes, 10'000);
  all_.charge(Resource::kClientBytes, 9'900);
  transaction_.open();
  EXPECT_THAT(queue({"ECHO", std::string(4'000, 'x')}),
              AllOf(StartsWith("QUEUEFULL limits.client_memory is 10000"), HasSubstr("9900 bytes")));
}

TEST_F(TransactionTest, ASmallCommandDoesNotKeepTheBlockInWhichItCame) {
  transaction_.open();
  // The first of many arguments of one block, as a reader has them.
  proto::Command command = command_of({std::string(100'000, 'x'), "ECHO", "a"});
  command.arguments.drop_front(1);
  EXPECT_EQ(transaction_.queue(std::move(command), alice_), "");
  EXPECT_LT(transaction_.memory_bytes(), 1'000u);
}

}  // namespace
}  // namespace locksley::daemon
