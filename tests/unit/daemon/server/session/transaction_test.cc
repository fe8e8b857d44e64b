// The queue of MULTI: what it holds, and what it costs the account.
#include "daemon/server/session/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <deque>
#include <memory>
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
    proto::Command command = command_of(words);
    std::string error = transaction_.queue(command, alice_);
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
  std::uint64_t freed_ = 0;  // bytes
  Transaction transaction_{[this](const std::shared_ptr<void>&, std::uint64_t bytes) { freed_ += bytes; }};
};

TEST_F(TransactionTest, GivesTheCommandsBackInTheirOrder) {
  std::vector<std::vector<std::string>> commands;
  for (const std::size_t size :
       {1U, 0U, 70'000U, 100U, 20'000U, 30'000U, 5U, 16'000U, 16'000U, 16'000U, 16'000U, 16'000U}) {
    commands.push_back({"ECHO", std::string(size, static_cast<char>('a' + commands.size())), ""});
    commands.push_back({"PING"});
  }
  for (int round = 0; round < 2; ++round) {
    transaction_.open();
    for (const auto& words : commands) EXPECT_EQ(queue({words.begin(), words.end()}), "");
    EXPECT_EQ(transaction_.size(), commands.size());
    transaction_.run();
    EXPECT_FALSE(transaction_.is_open());
    for (const auto& words : commands) {
      const proto::Command command = transaction_.next();
      EXPECT_EQ(std::vector<std::string>(command.arguments.begin(), command.arguments.end()), words);
    }
    EXPECT_EQ(transaction_.size(), 0u);
    EXPECT_EQ(transaction_.memory_bytes(), 0u);
    transaction_.close();
    EXPECT_FALSE(transaction_.is_running());
  }
}

TEST_F(TransactionTest, FreesWhatWasTakenOut) {
  transaction_.open();
  for (int i = 0; i < 100; ++i) queue({"ECHO", std::string(i % 2 == 0 ? 10'000 : 20'000, 'x')});
  EXPECT_GT(transaction_.memory_bytes(), 1'500'000u);
  EXPECT_LT(transaction_.memory_bytes(), 2'000'000u);
  transaction_.run();
  for (int i = 0; i < 90; ++i) transaction_.next();
  EXPECT_LT(transaction_.memory_bytes(), 250'000u);
}

TEST_F(TransactionTest, ASpoiledOneKeepsNothing) {
  transaction_.spoil();
  transaction_.open();
  EXPECT_FALSE(transaction_.is_spoiled()) << "only an open one can be spoiled";
  queue({"ECHO", "a"});
  transaction_.spoil();
  EXPECT_EQ(queue({"ECHO", "b"}), "");
  EXPECT_TRUE(transaction_.is_spoiled());
  EXPECT_GT(freed_, 0u);
  EXPECT_EQ(transaction_.size(), 0u);
  EXPECT_EQ(transaction_.memory_bytes(), 0u);
  transaction_.close();
  transaction_.open();
  EXPECT_FALSE(transaction_.is_spoiled());
}

TEST_F(TransactionTest, WhatIsDroppedIsFreedElsewhere) {
  transaction_.open();
  for (int i = 0; i < 1000; ++i) queue({"PING"});
  const std::uint64_t bytes = transaction_.memory_bytes();
  EXPECT_LT(bytes, 20'000u) << "a small command takes little";
  transaction_.close();
  EXPECT_EQ(freed_, bytes);
  EXPECT_EQ(transaction_.memory_bytes(), 0u);
  transaction_.open();
  transaction_.close();
  EXPECT_EQ(freed_, bytes);
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

TEST_F(TransactionTest, SmallOnesAreChargedForWhatTheyTake) {
  std::deque<Transaction> many;
  const std::size_t before = ::mallinfo2().uordblks;
  std::uint64_t charged = 0;
  for (int i = 0; i < 100; ++i) {
    Transaction& each = many.emplace_back([](std::shared_ptr<void>, std::uint64_t) {});
    each.open();
    proto::Command command = command_of({"PING"});
    each.queue(command, alice_);
    charged += sizeof(Transaction) + each.memory_bytes();
  }
  // 1 in 10: what the library's allocator adds to each block, and the deque's own index.
  EXPECT_LT(::mallinfo2().uordblks - before, charged + charged / 10);
}

TEST_F(TransactionTest, WhatOthersHoldCountsForTheLimitOfAll) {
  all_.set_limit(Resource::kClientBytes, 10'000);
  all_.charge(Resource::kClientBytes, 9'900);
  transaction_.open();
  EXPECT_THAT(queue({"ECHO", std::string(4'000, 'x')}),
              AllOf(StartsWith("QUEUEFULL limits.client_memory is 10000"), HasSubstr("9900 bytes")));
}

TEST_F(TransactionTest, ACommandDoesNotKeepTheBlockInWhichItCame) {
  transaction_.open();
  // One of several commands in a block, as a reader has them.
  for (const std::size_t size : {1U, 20'000U}) {
    proto::Command command = command_of({std::string(100'000, 'x'), "ECHO", std::string(size, 'a')});
    command.arguments.drop_front(1);
    EXPECT_EQ(transaction_.queue(command, alice_), "");
  }
  EXPECT_LT(transaction_.memory_bytes(), 22'000u);
}

}  // namespace
}  // namespace locksley::daemon
