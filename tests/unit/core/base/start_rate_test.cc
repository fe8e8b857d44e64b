// A rate of starts by itself.
#include "core/base/start_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/support/seed.h"

namespace locksley {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanoseconds kNow = seconds(100);

StartRate rate_of(Nanoseconds interval) {
  StartRate rate;
  rate.set_interval(interval, kNow);
  return rate;
}

TEST(StartRateTest, WithoutAnIntervalThereIsNoLimit) {
  StartRate rate;
  rate.take(1'000'000, kNow);
  EXPECT_EQ(rate.available(kNow), StartRate::kAny);
  rate.set_interval(Nanoseconds(-5), kNow);
  EXPECT_FALSE(rate.is_limited());
}

TEST(StartRateTest, OneStartInAnInterval) {
  StartRate rate = rate_of(milliseconds(20));
  EXPECT_EQ(rate.available(kNow), 1U);
  rate.take(1, kNow);
  EXPECT_EQ(rate.available(kNow), 0U);
  EXPECT_EQ(rate.next_at(), kNow + milliseconds(20));
  EXPECT_EQ(rate.available(kNow + milliseconds(20) - Nanoseconds(1)), 0U);
  EXPECT_EQ(rate.available(kNow + milliseconds(20)), 1U);
  EXPECT_EQ(rate.available(kNow + hours(1)), 1U) << "time in which nothing starts is not saved up";
}

TEST(StartRateTest, TenMillisecondsOfAShortIntervalMayStartAtOnce) {
  StartRate rate = rate_of(milliseconds(1));
  EXPECT_EQ(rate.available(kNow), 11U);
  rate.take(11, kNow);
  EXPECT_EQ(rate.available(kNow), 0U);
  EXPECT_EQ(rate.available(kNow + milliseconds(3)), 3U) << "a late timer's delay is made up for";
}

TEST(StartRateTest, StartsThatDidNotHappenAreGivenBack) {
  StartRate rate = rate_of(milliseconds(20));
  rate.take(1, kNow);
  rate.refund(1);
  EXPECT_EQ(rate.available(kNow), 1U);
  rate.refund(1'000);
  EXPECT_EQ(rate.available(kNow), 1U) << "no more than that";
}

TEST(StartRateTest, AnotherIntervalActsAtOnce) {
  StartRate rate = rate_of(hours(10));
  rate.take(1, kNow);
  rate.set_interval(milliseconds(20), kNow);
  EXPECT_EQ(rate.next_at(), kNow + milliseconds(20));
  rate.set_interval(hours(10), kNow);
  EXPECT_EQ(rate.available(kNow + milliseconds(20)), 1U) << "what is due by now stays so";
  rate.take(1, kNow + milliseconds(20));
  rate.set_interval(Nanoseconds{0}, kNow);
  EXPECT_EQ(rate.available(kNow), StartRate::kAny);
}

TEST(StartRateTest, NoNumberOverflows) {
  StartRate rate = rate_of(Nanoseconds::max());
  rate.take(~std::uint64_t{0}, kNow);
  EXPECT_EQ(rate.available(kNow + hours(24 * 300)), 0U);
  rate = rate_of(microseconds(1));
  rate.take(std::uint64_t{1} << 62, kNow);
  EXPECT_EQ(rate.available(kNow + hours(24 * 365)), 0U);
  rate.refund(~std::uint64_t{0});
  EXPECT_NE(rate.available(kNow), 0U);
}

TEST(StartRateTest, ARateIsAnIntervalThatIsNotRoundedToMicroseconds) {
  EXPECT_EQ(start_interval(0, seconds(1)), Nanoseconds(0)) << "no limit";
  EXPECT_EQ(start_interval(700'000, seconds(1)), Nanoseconds(1428));
  EXPECT_EQ(start_interval(std::uint64_t{1} << 40, seconds(1)), Nanoseconds(1));
}

TEST(StartRateTest, OfHowManyStartedAtOnceTheNextWaitsForAll) {
  StartRate rate = rate_of(milliseconds(100));
  rate.take(5, kNow);
  EXPECT_EQ(rate.available(kNow + milliseconds(499)), 0U);
  EXPECT_EQ(rate.available(kNow + milliseconds(500)), 1U);
}

TEST(StartRateTest, TheMostThatMayStartAtOnceIsWhatTheToleranceAdmits) {
  EXPECT_EQ(StartRate().most(), StartRate::kAny);
  EXPECT_EQ(rate_of(milliseconds(50)).most(), 1U);
  EXPECT_EQ(rate_of(milliseconds(1)).most(), 11U);
}

// At whatever times available() is called, no window has more starts than the rate admits, except
// for the tolerance.
TEST(StartRateTest, NoWindowHasMoreThanItsShare) {
  auto random = testing::stress_random(2);
  for (const std::uint64_t count : {1U, 20U, 99U, 101U, 1000U, 700'000U, 100'000U, 1'000'000U}) {
    const Nanoseconds interval = start_interval(count, seconds(1));
    const Nanoseconds tolerance = interval < milliseconds(10) ? milliseconds(10) : milliseconds(0);
    StartRate rate = rate_of(interval);
    Nanoseconds now = kNow;
    std::uint64_t taken = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t some = std::min<std::uint64_t>(rate.available(now), random() % 300 + 1);
      rate.take(some, now);
      taken += some;
      ASSERT_LE(taken, static_cast<std::uint64_t>((now - kNow + tolerance) / interval) + 1) << count;
      if (some == 0) {
        now = std::max(now, rate.next_at());
        ASSERT_GE(rate.available(now), 1U) << "at next_at() one may start";
      }
      now += interval * static_cast<std::int64_t>(random() % 3);
    }
    EXPECT_GT(taken, 500U);
  }
}

}  // namespace
}  // namespace locksley
