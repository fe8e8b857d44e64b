// Connections that wait for room to write: who is woken, and when.
#include "daemon/server/session/writes/write_waiters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <string>

#include "daemon/server/batches/stored/write_charges.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kFull = WriteCharges::kMostPending;

class WriteWaitersTest : public ::testing::Test {
 protected:
  WriteWaiters::Waiter& waiter(std::size_t number) {
    while (waiters_.size() <= number) {
      waiters_.emplace_back([this, at = waiters_.size()] { woken_.push_back(at); });
    }
    return waiters_[number];
  }
  bool wait_unless_room(std::size_t number, const Account& account) LOCKSLEY_REQUIRES(kIoThread) {
    return queues_.wait_unless_room(waiter(number), account);
  }
  std::vector<std::size_t> take_woken() { return std::exchange(woken_, {}); }

  const ThreadRoleScope role_{kIoThread};
  Account all_;
  Account alice_{&all_, "users.alice."};
  Account mallory_{&all_, "users.mallory."};
  WriteWaiters queues_;
  std::deque<WriteWaiters::Waiter> waiters_;
  std::vector<std::size_t> woken_;
};

TEST_F(WriteWaitersTest, OnlyTheUserThatHasTooMuchPendingWaits) {
  kIoThread.assert_held();
  EXPECT_FALSE(wait_unless_room(0, mallory_));
  mallory_.charge(Resource::kWriteBytes, kFull - 1);
  EXPECT_FALSE(wait_unless_room(0, mallory_));
  mallory_.charge(Resource::kWriteBytes, 1);
  EXPECT_TRUE(wait_unless_room(0, mallory_));
  EXPECT_FALSE(wait_unless_room(1, alice_)) << "what others have pending does not count";
  queues_.store_advanced();
  EXPECT_THAT(take_woken(), IsEmpty()) << "there is no room yet";
  mallory_.refund(Resource::kWriteBytes, kFull);
  queues_.store_advanced();
  EXPECT_THAT(take_woken(), ElementsAre(0));
  EXPECT_FALSE(wait_unless_room(0, mallory_));
}

TEST_F(WriteWaitersTest, EachThatHasRoomWakesTheNext) {
  kIoThread.assert_held();
  mallory_.charge(Resource::kWriteBytes, kFull);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(wait_unless_room(i, mallory_));
  mallory_.refund(Resource::kWriteBytes, kFull);
  queues_.store_advanced();
  EXPECT_THAT(take_woken(), ElementsAre(0)) << "not all of them";
  EXPECT_FALSE(wait_unless_room(0, mallory_));
  EXPECT_THAT(take_woken(), ElementsAre(1));
  mallory_.charge(Resource::kWriteBytes, kFull);  // the command of the first one took all room
  EXPECT_TRUE(wait_unless_room(1, mallory_));
  EXPECT_THAT(take_woken(), IsEmpty());
  mallory_.refund(Resource::kWriteBytes, kFull);
  queues_.store_advanced();
  EXPECT_THAT(take_woken(), ElementsAre(1)) << "it has kept its place";
}

TEST_F(WriteWaitersTest, OneThatEndsInItsTurnWakesTheNext) {
  kIoThread.assert_held();
  mallory_.charge(Resource::kWriteBytes, kFull);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(wait_unless_room(i, mallory_));
  queues_.leave(waiter(1));  // while it waits
  mallory_.refund(Resource::kWriteBytes, kFull);
  queues_.store_advanced();
  EXPECT_THAT(take_woken(), ElementsAre(0));
  queues_.leave(waiter(0));
  EXPECT_THAT(take_woken(), ElementsAre(2));
  queues_.leave(waiter(2));
  EXPECT_THAT(take_woken(), ElementsAre(3));
  queues_.leave(waiter(3));
  queues_.store_advanced();
  EXPECT_THAT(take_woken(), IsEmpty());
}

TEST_F(WriteWaitersTest, OneThatHasBecomeAnotherUserLeavesTheQueue) {
  kIoThread.assert_held();
  mallory_.charge(Resource::kWriteBytes, kFull);
  EXPECT_TRUE(wait_unless_room(0, mallory_));
  EXPECT_FALSE(wait_unless_room(0, alice_));
  mallory_.refund(Resource::kWriteBytes, kFull);
  queues_.store_advanced();
  EXPECT_THAT(take_woken(), IsEmpty());
}

}  // namespace
}  // namespace locksley::daemon
