// What a job of a queue costs, and how many jobs a claim takes.
#include "core/ring/state/job_cost.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace locksley {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr Nanoseconds kQuantum = milliseconds(1);

TEST(JobCostTest, TheFirstMeasurementIsTheCost) {
  JobCost cost;
  EXPECT_FALSE(cost.is_known());
  EXPECT_EQ(cost.mean(), 0);
  EXPECT_TRUE(cost.learn(microseconds(30), 3));
  EXPECT_TRUE(cost.is_known());
  EXPECT_EQ(cost.mean(), 10'000);
}

TEST(JobCostTest, LaterMeasurementsOfAsManyJobsCountAQuarter) {
  JobCost cost;
  (void)cost.learn(microseconds(100), 10);
  EXPECT_FALSE(cost.learn(microseconds(500), 10)) << "not the first one";
  EXPECT_EQ(cost.mean(), 10'000 + 40'000 / 4);
  (void)cost.learn(microseconds(20), 1);
  EXPECT_EQ(cost.mean(), 20'000) << "of fewer jobs, too";
}

TEST(JobCostTest, AMeasurementOfManyMoreJobsCountsMore) {
  JobCost cost;
  (void)cost.learn(microseconds(100), 1);
  (void)cost.learn(microseconds(1000), 10);
  EXPECT_EQ(cost.mean(), 100'000);
  (void)cost.learn(microseconds(1000), 100);
  EXPECT_DOUBLE_EQ(cost.mean(), 100'000 - 0.9 * 90'000);
}

TEST(JobCostTest, TheTimeOfTurnsWithoutAnEndBelongsToTheNextJobThatEnds) {
  JobCost cost;
  EXPECT_FALSE(cost.learn(microseconds(70), 0));
  EXPECT_FALSE(cost.is_known());
  EXPECT_TRUE(cost.learn(microseconds(30), 1));
  EXPECT_EQ(cost.mean(), 100'000);
  (void)cost.learn(microseconds(100), 1);
  EXPECT_EQ(cost.mean(), 100'000) << "once";
}

TEST(JobCostTest, AQueueThatEntersAgainKeepsItsCostButNotTheTimeWithoutAnEnd) {
  JobCost cost;
  (void)cost.learn(microseconds(100), 1);
  (void)cost.learn(microseconds(400), 0);
  cost.begin(Nanoseconds{0});
  EXPECT_EQ(cost.mean(), 100'000);
  (void)cost.learn(microseconds(100), 1);
  EXPECT_EQ(cost.mean(), 100'000);
}

TEST(JobCostTest, AJobCostsAtLeastANanosecond) {
  JobCost cost;
  EXPECT_TRUE(cost.learn(Nanoseconds{0}, 5));
  EXPECT_EQ(cost.mean(), 1);
}

TEST(JobCostTest, ClaimsOfJobsOfUnknownCostHaveOneJob) {
  JobCost cost;
  EXPECT_EQ(cost.next_claim(kQuantum), 1U);
  EXPECT_EQ(cost.next_claim(kQuantum), 1U);
}

TEST(JobCostTest, ClaimsGrowFourfoldUpToAQuantum) {
  JobCost cost;
  EXPECT_EQ(cost.next_claim(kQuantum), 1U);
  (void)cost.learn(microseconds(1), 1);
  for (const std::uint64_t size : {4U, 16U, 64U, 256U, 1000U, 1000U})
    EXPECT_EQ(cost.next_claim(kQuantum), size);
}

TEST(JobCostTest, AClaimIsAtMostFourTimesAsLargeAsTheLastOne) {
  JobCost cost;
  (void)cost.learn(milliseconds(2), 1);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(cost.next_claim(kQuantum), 1U) << "even a quantum is too short for one";
  (void)cost.learn(nanoseconds(1), 1'000'000);
  EXPECT_EQ(cost.next_claim(kQuantum), 4U) << "however cheap the jobs seem to be now";
}

TEST(JobCostTest, LeasesGrowSixteenfoldAfterAClaimOfAnyKind) {
  JobCost cost;
  EXPECT_EQ(cost.next_claim(kQuantum, JobCost::kLeaseGrowth), 1U);
  (void)cost.learn(nanoseconds(1), 1);
  EXPECT_EQ(cost.next_claim(kQuantum, JobCost::kLeaseGrowth), 16U);
  EXPECT_EQ(cost.next_claim(kQuantum), 64U);
  EXPECT_EQ(cost.next_claim(kQuantum, JobCost::kLeaseGrowth), 1'024U);
}

TEST(JobCostTest, AHintNeedsNoSmallClaims) {
  JobCost cost;
  cost.begin(microseconds(1));
  EXPECT_EQ(cost.mean(), 1'000);
  EXPECT_EQ(cost.next_claim(kQuantum), 1000U);
  EXPECT_FALSE(cost.learn(microseconds(2000), 1000)) << "the cost was known";
  EXPECT_EQ(cost.mean(), 1'250);
}

TEST(JobCostTest, TheLargestClaimsDoNotOverflow) {
  JobCost cost;
  cost.begin(nanoseconds(1));
  constexpr auto kLongest = Nanoseconds{std::numeric_limits<std::int64_t>::max()};
  const std::uint64_t size = cost.next_claim(kLongest);
  EXPECT_EQ(size, std::uint64_t{1} << 63);
  EXPECT_EQ(cost.next_claim(kLongest), size);
}

}  // namespace
}  // namespace locksley
