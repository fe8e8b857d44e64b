// Whether a command must wait for room to write, by what it writes and by what came before it.
#include "daemon/server/session/writes/write_gate.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/server/batches/stored/write_charges.h"

namespace locksley::daemon {
namespace {

using Writes = WriteGate::Writes;

class WriteGateTest : public ::testing::Test {
 protected:
  void fill() { account_.charge(Resource::kWriteBytes, WriteCharges::kMostPending); }
  void make_room() LOCKSLEY_REQUIRES(kIoThread) {
    account_.refund(Resource::kWriteBytes, WriteCharges::kMostPending);
    waiters_.store_advanced();
  }
  bool wait_unless_room(WriteGate& gate, Writes writes) LOCKSLEY_REQUIRES(kIoThread) {
    return gate.wait_unless_room(account_, output_, [this, writes] {
      ++found_;
      return writes;
    });
  }

  const ThreadRoleScope role_{kIoThread};
  Account all_;
  Account account_{&all_, "users.mallory."};
  WriteWaiters waiters_;
  HeldReplies queue_;
  SessionOutput output_{queue_, [this](SessionOutput::HeldNumber held, const std::string& error) {
                          output_.release(held, error, proto::Protocol::kResp2);
                        }};
  int found_ = 0;  // how often a command was looked at
  int woken_ = 0;
  int other_woken_ = 0;
  WriteGate gate_{waiters_, [this] { ++woken_; }};
  WriteGate other_{waiters_, [this] { ++other_woken_; }};
};

TEST_F(WriteGateTest, OnlyACommandThatAddsToTheStoreWaitsWhileNoReplyIsHeld) {
  kIoThread.assert_held();
  fill();
  EXPECT_FALSE(wait_unless_room(gate_, Writes::kNothing));
  gate_.next_command();
  EXPECT_FALSE(wait_unless_room(gate_, Writes::kChange));
  gate_.next_command();
  EXPECT_TRUE(wait_unless_room(gate_, Writes::kMore));
  make_room();
  EXPECT_EQ(woken_, 1);
  EXPECT_FALSE(wait_unless_room(gate_, Writes::kMore));
}

TEST_F(WriteGateTest, AChangeWaitsBehindAReplyThatIsHeld) {
  kIoThread.assert_held();
  fill();
  output_.hold(1);
  EXPECT_FALSE(wait_unless_room(gate_, Writes::kNothing));
  gate_.next_command();
  EXPECT_TRUE(wait_unless_room(gate_, Writes::kChange));
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());
  EXPECT_FALSE(wait_unless_room(gate_, Writes::kChange)) << "though there is no room yet";
  make_room();
  EXPECT_EQ(woken_, 0) << "it has given its place up";
}

TEST_F(WriteGateTest, ACommandIsLookedAtOnceAndOnlyWithoutRoom) {
  kIoThread.assert_held();
  EXPECT_FALSE(wait_unless_room(gate_, Writes::kMore));
  EXPECT_EQ(found_, 0);
  fill();
  EXPECT_TRUE(wait_unless_room(gate_, Writes::kMore));
  EXPECT_TRUE(wait_unless_room(gate_, Writes::kNothing)) << "it is the same command";
  EXPECT_EQ(found_, 1);
  gate_.next_command();
  EXPECT_FALSE(wait_unless_room(gate_, Writes::kNothing));
  EXPECT_EQ(found_, 2);
}

TEST_F(WriteGateTest, OneThatIsGivenUpLeavesItsPlaceToTheNext) {
  kIoThread.assert_held();
  fill();
  EXPECT_TRUE(wait_unless_room(gate_, Writes::kMore));
  EXPECT_TRUE(wait_unless_room(other_, Writes::kMore));
  gate_.set_holding(true);
  make_room();
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(other_woken_, 0);
  gate_.leave();
  EXPECT_FALSE(gate_.is_holding());
  EXPECT_EQ(other_woken_, 1);
}

}  // namespace
}  // namespace locksley::daemon
