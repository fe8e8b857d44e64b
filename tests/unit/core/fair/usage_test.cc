#include "core/fair/usage.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace locksley {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanoseconds kStep = DecayingSum::kStep;
const double kConstant = static_cast<double>(DecayingSum::kTimeConstant.count());

// What is left of 1 after so many steps.
double left_after(std::int64_t steps) {
  return std::exp(-static_cast<double>(steps) / DecayingSum::kStepsPerTimeConstant);
}

TEST(DecayingSumTest, ItDecaysExponentiallyOverAnyNumberOfSteps) {
  for (const std::int64_t steps : {1, 2, 31, 32, 33, 63, 64, 75, 100, 1000, 2047}) {
    EXPECT_NEAR(DecayingSum::left_of_one(kStep, kStep * (steps + 1)), left_after(steps), 1e-12) << steps;
    DecayingSum sum;
    sum.add(1, kStep);
    EXPECT_NEAR(sum.at(kStep * (steps + 1)), left_after(steps), 1e-12) << steps;
  }
}

TEST(DecayingSumTest, NothingIsLeftBeyondItsTables) {
  EXPECT_EQ(DecayingSum::left_of_one(Nanoseconds{0}, kStep * 2048), 0);
  EXPECT_GT(DecayingSum::left_of_one(Nanoseconds{0}, kStep * 2047), 0);
}

TEST(DecayingSumTest, WithinAStepNothingDecays) {
  DecayingSum sum;
  sum.add(2, kStep);
  sum.add(3, kStep * 2 - Nanoseconds{1});
  EXPECT_EQ(sum.at(kStep * 2 - Nanoseconds{1}), 5);
  EXPECT_LT(sum.at(kStep * 2), 5);
}

TEST(DecayingSumTest, WhatIsAddedLaterHasDecayedLess) {
  DecayingSum sum;
  sum.add(1, kStep);
  sum.add(1, kStep * 76);
  EXPECT_NEAR(sum.at(kStep * 151), left_after(150) + left_after(75), 1e-12);
}

TEST(DecayingSumTest, AnEarlierInstantCountsAsTheLastOne) {
  DecayingSum sum;
  sum.add(1, kStep * 100);
  sum.add(1, kStep * 50);
  EXPECT_EQ(sum.at(kStep * 10), 2);
  EXPECT_EQ(DecayingSum::left_of_one(kStep * 9, kStep * 3), 1);
  EXPECT_EQ(DecayingSum::left_of_one(kStep * 9, kStep * 9), 1);
}

TEST(DecayingSumTest, AShortServiceCountsWholeAndALongOneAtMostATimeConstant) {
  EXPECT_EQ(DecayingSum::spread(kStep), static_cast<double>(kStep.count()));
  EXPECT_NEAR(DecayingSum::spread(kStep * 75), kConstant * (1 - std::exp(-1.0)), 1);
  EXPECT_NEAR(DecayingSum::spread(kStep * 7500), kConstant, 1);
}

TEST(UsageTest, ARunningServiceCountsAsMuchAsItHasReceived) {
  Usage usage;
  usage.begin(kStep);
  EXPECT_NEAR(usage.recent(1, kStep), 0, 1e-6);
  for (const std::int64_t steps : {1, 10, 75, 750}) {
    EXPECT_NEAR(usage.recent(1, kStep * (1 + steps)), kConstant * (1 - left_after(steps)), 10) << steps;
  }
  usage.begin(kStep * 751);
  EXPECT_NEAR(usage.recent(2, kStep * (751 + 75)), kConstant * (2 - left_after(825) - left_after(75)), 10);
}

TEST(UsageTest, AServiceThatHasEndedCountsAsItDidWhileItRan) {
  Usage usage;
  usage.begin(kStep);
  const Nanoseconds end = kStep * 76;
  const double running = usage.recent(1, end);
  usage.end({kStep, kStep * 75, end});
  EXPECT_NEAR(usage.recent(0, end), running, 10);
  EXPECT_NEAR(usage.recent(0, kStep * 151), running * left_after(75), 10);
}

TEST(UsageTest, ShortServicesAddUp) {
  Usage usage;
  for (int i = 0; i < 3; ++i) {
    usage.begin(kStep);
    usage.end({kStep, milliseconds(2), kStep});
  }
  EXPECT_NEAR(usage.recent(0, kStep), 6e6, 1e-3);
  EXPECT_NEAR(usage.recent(0, kStep + seconds(60)), 0, 1e3);
}

}  // namespace
}  // namespace locksley
