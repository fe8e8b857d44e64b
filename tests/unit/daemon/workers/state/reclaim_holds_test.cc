#include "daemon/workers/state/reclaim_holds.h"

#include <gtest/gtest.h>

#include <chrono>

namespace locksley::daemon {
namespace {

using std::chrono::seconds;

constexpr Nanoseconds kStart = seconds(1'000);

TEST(ReclaimHoldsTest, OnlyAfterARestartWorkersReturnFromAnEarlierLife) {
  EXPECT_EQ(ReclaimHolds(seconds(3), /*has_recovered=*/true, kStart).new_life_until(), kStart + seconds(3));
  EXPECT_EQ(ReclaimHolds(seconds(3), /*has_recovered=*/false, kStart).new_life_until(), kStart);
}

TEST(ReclaimHoldsTest, AfterAnAbsenceOf20SecondsWorkersMayReturn) {
  ReclaimHolds holds(seconds(3), /*has_recovered=*/false, kStart);
  const Nanoseconds now = kStart + seconds(60);
  holds.note_absence(std::nullopt, now);  // no timer was set
  EXPECT_LT(holds.returning_until(/*is_given_up=*/false, now), now);
  holds.note_absence(now - seconds(19), now);
  EXPECT_LT(holds.returning_until(/*is_given_up=*/false, now), now);
  holds.note_absence(now - seconds(20), now);
  EXPECT_EQ(holds.returning_until(/*is_given_up=*/false, now), now + seconds(3));
}

TEST(ReclaimHoldsTest, TheWorkerOfAConnectionThatItMayHaveGivenUpMayReturn) {
  const ReclaimHolds holds(seconds(3), /*has_recovered=*/false, kStart);
  EXPECT_EQ(holds.returning_until(/*is_given_up=*/true, kStart), kStart + seconds(3));
  EXPECT_LT(holds.returning_until(/*is_given_up=*/false, kStart), kStart);
}

}  // namespace
}  // namespace locksley::daemon
