// What a user's writes cost until the store has reported their outcome.
#include "daemon/server/batches/stored/write_charges.h"

#include <gtest/gtest.h>

namespace locksley::daemon {
namespace {

std::uint64_t pending(const Account& account) { return account.used(Resource::kWriteBytes); }

TEST(WriteChargesTest, EachWriteIsRefundedWithItsOutcome) {
  const ThreadRoleScope role(kIoThread);
  Account all;
  Account alice(&all, "users.alice.");
  Account mallory(&all, "users.mallory.");
  WriteCharges charges;
  charges.charge(alice, 1, 100);
  charges.charge(alice, 1, 0);
  charges.charge(mallory, 1, 7);
  charges.charge(alice, 2, 50);
  EXPECT_EQ(pending(alice), 150);
  EXPECT_EQ(pending(mallory), 7);
  charges.refund(1);
  EXPECT_EQ(pending(alice), 50);
  EXPECT_EQ(pending(mallory), 0U);
  charges.refund(5);
  EXPECT_EQ(pending(alice), 0U);
  EXPECT_EQ(pending(all), 0U);
}

TEST(WriteChargesTest, WithoutAStoreNothingIsPending) {
  const ThreadRoleScope role(kIoThread);
  Account alice;
  WriteCharges charges;
  charges.charge(alice, 0, 1'000);
  EXPECT_EQ(pending(alice), 0U);
}

TEST(WriteChargesTest, ThereIsRoomForOneMoreCommandBelowTheBound) {
  Account alice;
  alice.charge(Resource::kWriteBytes, WriteCharges::kMostPending - 1);
  EXPECT_TRUE(has_room_to_write(alice));
  alice.charge(Resource::kWriteBytes, 1);
  EXPECT_FALSE(has_room_to_write(alice));
}

TEST(WriteChargesTest, ThereIsLessRoomWhileOthersHaveWritesPending) {
  Account all;
  Account alice(&all, "users.alice.");
  Account mallory(&all, "users.mallory.");
  mallory.charge(Resource::kWriteBytes, WriteCharges::kMostPending - 1);
  EXPECT_TRUE(has_room_to_write(mallory)) << "it is the only one";
  alice.charge(Resource::kWriteBytes, 1);
  EXPECT_FALSE(has_room_to_write(mallory));
  EXPECT_TRUE(has_room_to_write(alice));
  alice.charge(Resource::kWriteBytes, WriteCharges::kMostBesideOthers - 1);
  EXPECT_FALSE(has_room_to_write(alice));
  mallory.refund(Resource::kWriteBytes, WriteCharges::kMostPending - WriteCharges::kMostBesideOthers);
  EXPECT_TRUE(has_room_to_write(mallory));
  mallory.refund(Resource::kWriteBytes, WriteCharges::kMostBesideOthers - 1);
  EXPECT_TRUE(has_room_to_write(alice)) << "nothing of others is pending any more";
}

}  // namespace
}  // namespace locksley::daemon
