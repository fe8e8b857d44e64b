// The wall clock against the newest time of the store.
#include "daemon/server/batches/stored/store_clock.h"

#include <gtest/gtest.h>

namespace locksley::daemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::int64_t kNewest = 1'700'000'000'000;
constexpr Instant kStart{hours(5)};
constexpr milliseconds kWeeks = hours(21 * 24);

ClockReading reading(milliseconds after_newest, Instant steady = kStart) {
  return {kNewest + after_newest.count(), steady};
}

TEST(StoreClockTest, AClockThatStandsShortlyAfterTheStoreIsTrusted) {
  const StoreClock clock(kNewest, reading(minutes(30)));
  EXPECT_FALSE(clock.is_doubtful());
  EXPECT_EQ(clock.difference(), minutes(30));
  EXPECT_EQ(clock.end_at(kNewest + 1000, hours(1)), kStart + seconds(1) - minutes(30)) << "it is over";
  EXPECT_EQ(clock.start_at(kNewest + 1000), kStart + seconds(1) - minutes(30));
}

TEST(StoreClockTest, AnEmptyStoreSaysNothing) {
  const StoreClock clock(0, reading(milliseconds(0)));
  EXPECT_FALSE(clock.is_doubtful());
  EXPECT_EQ(clock.difference(), milliseconds(0));
}

TEST(StoreClockTest, TheBoundsOfDoubt) {
  EXPECT_FALSE(StoreClock(kNewest, reading(StoreClock::kLongAbsence)).is_doubtful());
  EXPECT_TRUE(StoreClock(kNewest, reading(StoreClock::kLongAbsence + milliseconds(1))).is_doubtful());
  EXPECT_FALSE(StoreClock(kNewest, reading(-StoreClock::kTolerance)).is_doubtful());
  EXPECT_TRUE(StoreClock(kNewest, reading(-StoreClock::kTolerance - milliseconds(1))).is_doubtful());
}

TEST(StoreClockTest, AfterALongAbsenceNothingEndsBeforeTheSecondLook) {
  const StoreClock clock(kNewest, reading(kWeeks));
  EXPECT_EQ(clock.end_at(kNewest + 1000, hours(1)), clock.second_look_at() + StoreClock::kMargin);
  EXPECT_LT(clock.start_at(kNewest + 1000), kStart) << "a delay that is over holds nothing up";
  const milliseconds longer = kWeeks + hours(2);
  EXPECT_EQ(clock.end_at(kNewest + longer.count(), kWeeks * 2), kStart + hours(2));
}

TEST(StoreClockTest, AClockThatWasSetBackKeepsNothingForLonger) {
  const StoreClock clock(kNewest, reading(-kWeeks));
  EXPECT_EQ(clock.start_at(kNewest + 60'000), kStart + minutes(1)) << "and not after weeks";
  EXPECT_EQ(clock.end_at(kNewest + 3'600'000, hours(1)), kStart + hours(1));
  EXPECT_EQ(clock.end_at(kNewest + 1000, seconds(1)), clock.second_look_at() + StoreClock::kMargin);
}

TEST(StoreClockTest, AClockThatWasNotSetMeanwhileIsNotCorrected) {
  const StoreClock clock(kNewest, reading(kWeeks));
  EXPECT_FALSE(
      clock.corrected(reading(kWeeks + StoreClock::kSecondLook, clock.second_look_at())).has_value());
}

TEST(StoreClockTest, AClockThatWasSetMeanwhileCounts) {
  const StoreClock first(kNewest, reading(kWeeks));
  const Instant later = first.second_look_at();
  const auto clock = first.corrected(reading(minutes(15), later));
  ASSERT_TRUE(clock.has_value());
  EXPECT_FALSE(clock->is_doubtful());
  EXPECT_EQ(clock->end_at(kNewest + 3'600'000, hours(1)), later + minutes(45));
  EXPECT_EQ(clock->start_at(kNewest + 3'600'000), later + minutes(45));
}

}  // namespace
}  // namespace locksley::daemon
