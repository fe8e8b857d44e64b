// A rate of starts by itself.
#include "core/ring/start_rate.h"

#include <gtest/gtest.h>

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
  rate.give_back(1);
  EXPECT_EQ(rate.available(kNow), 1U);
  rate.give_back(1'000);
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
  rate.give_back(~std::uint64_t{0});
  EXPECT_NE(rate.available(kNow), 0U);
}

}  // namespace
}  // namespace locksley
