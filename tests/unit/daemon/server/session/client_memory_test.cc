// Which connection has to go when commands that have not arrived whole take too much memory.
#include "daemon/server/session/client_memory.h"

#include <gtest/gtest.h>

#include "config/config.h"

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kAll = 8U << 20;

class ClientMemoryTest : public ::testing::Test {
 protected:
  ClientMemoryTest() {
    config_.limits.max_queued_bytes.count = kAll;
    all_.set_limit(Resource::kInputBytes, kAll);
    for (Account* const account : {&eve_, &bob_})
      account->set_limit(Resource::kInputBytes, Account::kNoLimit, Account::Kind::kLeavesRoom);
  }

  config::Config config_;
  Account all_;
  Account eve_{&all_, "users.eve."};
  Account bob_{&all_, "users.bob."};
  ClientMemory memory_{config_, all_};
};

TEST_F(ClientMemoryTest, AUserLeavesRoomToOthers) {
  ClientMemory::Part first(memory_);
  ClientMemory::Part second(memory_);
  ClientMemory::Part other(memory_);
  first.set_account(&eve_);
  second.set_account(&eve_);
  other.set_account(&bob_);
  EXPECT_TRUE(first.set_input(kAll / 4));
  EXPECT_TRUE(second.set_input(kAll / 4)) << "half, while no other has any";
  EXPECT_FALSE(second.set_input(kAll / 2));
  second.clear();
  EXPECT_TRUE(other.set_input(kAll / 3)) << "of another user";
  EXPECT_FALSE(first.set_input(kAll / 2)) << "more than is free";
  first.clear();
  other.clear();
  EXPECT_EQ(all_.used(Resource::kInputBytes), 0U);
}

TEST_F(ClientMemoryTest, ThoseWhoHaveNotLoggedInLeaveRoomToOthers) {
  ClientMemory::Part first(memory_);
  ClientMemory::Part second(memory_);
  ClientMemory::Part user(memory_);
  user.set_account(&bob_);
  EXPECT_TRUE(first.set_input(kAll / 4));
  EXPECT_TRUE(second.set_input(kAll / 4));
  EXPECT_FALSE(second.set_input(kAll / 2));
  second.clear();
  EXPECT_TRUE(user.set_input(kAll / 3));
  first.clear();
  user.clear();
}

TEST_F(ClientMemoryTest, SmallCommandsAreReadWhateverOthersHold) {
  ClientMemory::Part large(memory_);
  ClientMemory::Part small(memory_);
  large.set_account(&eve_);
  small.set_account(&bob_);
  EXPECT_FALSE(large.set_input(2 * kAll));
  EXPECT_TRUE(small.set_input(proto::CommandReader::kFirstBlockBytes));
  EXPECT_FALSE(small.set_input(kAll / 8));
  EXPECT_TRUE(large.set_input(kAll)) << "it shrinks";
  large.clear();
  small.clear();
}

TEST_F(ClientMemoryTest, WhatAConnectionHoldsFollowsItsUser) {
  ClientMemory::Part part(memory_);
  EXPECT_TRUE(part.set_input(1000));
  part.set_output(300);
  EXPECT_EQ(all_.used(Resource::kInputBytes), 1000U);
  part.set_account(&eve_);
  EXPECT_EQ(eve_.used(Resource::kInputBytes), 1000U);
  EXPECT_EQ(eve_.used(Resource::kClientBytes), 300U);
  part.set_account(nullptr);
  EXPECT_EQ(eve_.used(Resource::kInputBytes), 0U);
  EXPECT_EQ(memory_.strangers().used(Resource::kInputBytes), 1000U);
  EXPECT_EQ(all_.used(Resource::kInputBytes), 1000U);
  part.clear();
  EXPECT_EQ(all_.used(Resource::kInputBytes), 0U);
  EXPECT_EQ(all_.used(Resource::kClientBytes), 0U);
}

}  // namespace
}  // namespace locksley::daemon
