// Which jobs a claim takes and how many, what they are expected to cost, and which tenants are
// remembered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <vector>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_view.h"

namespace locksley {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr Nanoseconds kSomeTime = seconds(1);

// A ring with one queue whose jobs are expected to cost 100 us, ten to a quantum.
class FairRingJobsTest : public ::testing::Test {
 protected:
  FairRingJobsTest() { ring.attach(queue, {.cost_hint = microseconds(100)}, nullptr); }
  ~FairRingJobsTest() override { ring.detach_all(); }
  IndexRange claim(std::uint64_t most = FairRing::kAnyNumber) {
    const auto claimed = ring.try_claim(kSomeTime, ClaimFilter::kAny, most);
    if (!claimed) return {};
    charged = claimed->charged;
    return claimed->range;
  }
  // The claimed jobs have ended, at what they were expected to cost.
  void settle(IndexRange done, IndexRange left = {}) {
    const auto jobs = static_cast<std::int64_t>(done.size());
    (void)ring.settle(
        queue,
        {.charged = charged, .actual = microseconds(100) * jobs, .executed = done.size(), .left = left},
        kSomeTime);
  }
  std::uint64_t queued() { return ring.view().queue(queue, kSomeTime).queued; }

  FairRing ring{{}};
  RingQueue queue;
  Charge charged;
};

TEST_F(FairRingJobsTest, AClaimReachesAsFarAsItMayAndNoFarther) {
  ring.add_jobs(queue, 25, kSomeTime);
  for (const IndexRange expected : {IndexRange{0, 3}, {3, 13}, {13, 23}, {23, 25}}) {
    const IndexRange range = claim(expected.low == 0 ? 3 : FairRing::kAnyNumber);
    EXPECT_EQ(range, expected);
    settle(range);
    EXPECT_EQ(queued(), 25 - expected.high);
  }
  EXPECT_FALSE(ring.hints().has_work());
}

TEST_F(FairRingJobsTest, AClaimOfWhatWasGivenBackReachesToItsEndAndNoFarther) {
  ring.add_jobs(queue, 40, kSomeTime);
  const IndexRange first = claim();
  EXPECT_EQ(first, (IndexRange{0, 10}));
  const Charge of_first = charged;
  const IndexRange second = claim();
  EXPECT_EQ(second, (IndexRange{10, 20}));
  const Charge of_second = charged;
  charged = of_first;
  settle({0, 4}, {4, 10});  // between what is claimed and what never was: a range of its own
  EXPECT_EQ(queued(), 26u);
  EXPECT_EQ(claim(4), (IndexRange{4, 8}));
  settle({4, 8});
  EXPECT_EQ(claim(), (IndexRange{8, 10}));
  settle({8, 10});
  EXPECT_EQ(claim(), (IndexRange{20, 30}));
  settle({20, 30});
  charged = of_second;
  settle({10, 20});
  EXPECT_EQ(claim(), (IndexRange{30, 40}));
  settle({30, 40});
  EXPECT_EQ(queued(), 0u);
}

TEST_F(FairRingJobsTest, WhatIsGivenBackJustBelowTheRestJoinsIt) {
  ring.add_jobs(queue, 30, kSomeTime);
  EXPECT_EQ(claim(), (IndexRange{0, 10}));
  settle({0, 4}, {4, 10});
  EXPECT_EQ(claim(), (IndexRange{4, 14})) << "one range";
  settle({4, 14});
  EXPECT_EQ(claim(), (IndexRange{14, 24}));
  settle({14, 24});
}

TEST_F(FairRingJobsTest, RangesThatAreGivenBackSideBySideBecomeOne) {
  ring.add_jobs(queue, 30, kSomeTime);
  for (int i = 0; i < 3; ++i) (void)claim();
  settle({}, {14, 20});
  settle({}, {10, 14});
  settle({10, 10}, {0, 3});
  EXPECT_EQ(claim(), (IndexRange{0, 3}));
  EXPECT_EQ(claim(), (IndexRange{10, 20}));
  for (const std::uint64_t executed : {3u, 10u}) {
    (void)ring.settle(queue, {.charged = charged, .executed = executed}, kSomeTime);
  }
  // A thief had [3, 10) and [20, 30), and runs them.
  const Charge thief = ring.join(queue, kSomeTime);
  (void)ring.settle(queue, {.charged = thief, .executed = 17}, kSomeTime);
  EXPECT_FALSE(ring.view().has_claims(queue));
}

TEST_F(FairRingJobsTest, JobsQueuedAgainAreServedFromTheLowestBeforeAllOthers) {
  ring.add_jobs(queue, 5, kSomeTime);
  EXPECT_EQ(claim(5), (IndexRange{0, 5}));
  settle({0, 5});
  ring.add_jobs(queue, 5, kSomeTime);
  const std::vector<IndexRange> ranges{{0, 1}, {3, 5}};
  EXPECT_TRUE(ring.queue_again(queue, ranges, kSomeTime));
  EXPECT_EQ(queued(), 8u);
  std::vector<IndexRange> claims;
  while (ring.hints().has_work()) {
    claims.push_back(claim());
    settle(claims.back());
  }
  EXPECT_THAT(claims, ElementsAre(IndexRange{0, 1}, IndexRange{3, 10}));
}

TEST_F(FairRingJobsTest, ARangeBeyondTheHighestIndexLeavesAGap) {
  ring.add_jobs(queue, 2, kSomeTime);
  EXPECT_TRUE(ring.add_range(queue, {5, 7}, kSomeTime));
  EXPECT_TRUE(ring.add_range(queue, {3, 4}, kSomeTime)) << "in the gap";
  EXPECT_TRUE(ring.add_range(queue, {7, 7}, kSomeTime)) << "of nothing";
  EXPECT_EQ(queued(), 5u);
  std::vector<IndexRange> claims;
  while (ring.hints().has_work()) {
    claims.push_back(claim());
    settle(claims.back());
  }
  EXPECT_THAT(claims, ElementsAre(IndexRange{3, 4}, IndexRange{0, 2}, IndexRange{5, 7}));
}

TEST_F(FairRingJobsTest, EachExecutorIsLeftItsPart) {
  ring.set_parallelism(4);
  ring.add_jobs(queue, 10, kSomeTime);
  EXPECT_EQ(claim(), (IndexRange{0, 3})) << "a quarter of ten, rounded up";
  settle({0, 3});
  ring.set_slots(queue, 2, kSomeTime);
  EXPECT_EQ(claim(), (IndexRange{3, 7})) << "half of seven: no more than two may have jobs";
  settle({3, 7});
}

// ---- Costs ----

// A queue of which nothing is known.
class LearnedCostTest : public FairRingJobsTest {
 protected:
  LearnedCostTest() {
    ring.attach(unknown, {.tenant = "unknown"}, nullptr);
    ring.add_jobs(unknown, 1'000'000, kSomeTime);
  }
  ~LearnedCostTest() override { ring.detach_all(); }
  // Runs the next claim, at so much a job; how many jobs it had.
  std::uint64_t run(Nanoseconds each) {
    const auto claimed = ring.try_claim(kSomeTime);
    EXPECT_EQ(claimed->queue, &unknown);
    const std::uint64_t jobs = claimed->range.size();
    (void)ring.settle(
        unknown,
        {.charged = claimed->charged, .actual = each * static_cast<std::int64_t>(jobs), .executed = jobs},
        kSomeTime);
    return jobs;
  }
  RingQueue unknown;
};

TEST_F(LearnedCostTest, AClaimIsAtMostFourTimesAsLargeAsTheOneBefore) {
  std::vector<std::uint64_t> claims;
  for (int i = 0; i < 7; ++i) claims.push_back(run(microseconds(1)));
  EXPECT_THAT(claims, ElementsAre(1, 4, 16, 64, 256, 1000, 1000));
}

// As where the clock's step is longer than the jobs.
TEST_F(LearnedCostTest, ClaimsOfJobsThatTakeNoTimeGrowToo) {
  std::vector<std::uint64_t> claims;
  for (int i = 0; i < 4; ++i) claims.push_back(run(Nanoseconds{0}));
  EXPECT_THAT(claims, ElementsAre(1, 4, 16, 64));
}

TEST_F(LearnedCostTest, AClaimOfMoreJobsThanTheOneBeforeIsTheBetterMeasurement) {
  run(microseconds(100));
  EXPECT_EQ(run(microseconds(20)), 4U);
  EXPECT_EQ(ring.view().queue(unknown, kSomeTime).job_cost, microseconds(40)) << "three quarters of it";
  EXPECT_EQ(run(microseconds(20)), 16U);
  EXPECT_EQ(ring.view().queue(unknown, kSomeTime).job_cost, microseconds(25));
}

TEST_F(LearnedCostTest, TheCostFollowsTheMeasurementsByAQuarter) {
  ring.set_quantum(microseconds(1));  // one job a claim
  run(microseconds(100));
  EXPECT_EQ(ring.view().queue(unknown, kSomeTime).job_cost, microseconds(100));
  run(microseconds(500));
  EXPECT_EQ(ring.view().queue(unknown, kSomeTime).job_cost, microseconds(200));
  run(microseconds(0));
  EXPECT_NEAR(static_cast<double>(ring.view().queue(unknown, kSomeTime).job_cost.count()), 150'000, 10);
}

TEST_F(LearnedCostTest, TheTimeOfATurnThatEndedNoJobBelongsToTheNextJobThatEnds) {
  const auto first = ring.try_claim(kSomeTime);
  (void)ring.settle(unknown, {.charged = first->charged, .actual = microseconds(300), .left = first->range},
                    kSomeTime);
  EXPECT_EQ(ring.view().queue(unknown, kSomeTime).job_cost, Nanoseconds{0});
  run(microseconds(100));
  EXPECT_EQ(ring.view().queue(unknown, kSomeTime).job_cost, microseconds(400));
}

TEST_F(LearnedCostTest, AClaimIsExpectedToTakeWhatItsJobsCostAndAQuantumIfThatIsUnknown) {
  ring.set_quantum(milliseconds(3));
  EXPECT_EQ(ring.try_claim(kSomeTime)->charged.time, milliseconds(3));
  (void)ring.settle(unknown, {.actual = microseconds(50), .executed = 1}, kSomeTime);
  const auto claimed = ring.try_claim(kSomeTime);
  EXPECT_EQ(claimed->range.size(), 4u);
  EXPECT_EQ(claimed->charged.time, microseconds(200));
  (void)ring.settle(unknown, {.executed = 4}, kSomeTime);
}

TEST_F(LearnedCostTest, AnAbsurdCostIsClaimedOneJobAtATimeAndChargedAsAnHour) {
  ring.close(queue, kSomeTime);
  const auto claimed = ring.try_claim(kSomeTime);
  (void)ring.settle(unknown,
                    {.charged = claimed->charged,
                     .actual = Nanoseconds{std::numeric_limits<std::int64_t>::max() / 4},
                     .executed = 1},
                    kSomeTime);
  const auto next = ring.try_claim(kSomeTime);
  EXPECT_EQ(next->range.size(), 1u);
  EXPECT_EQ(next->charged.time, std::chrono::hours(1));
  (void)ring.settle(unknown, {.charged = next->charged, .executed = 1}, kSomeTime);
}

// ---- Waiting, and the hint ----

TEST_F(FairRingJobsTest, AClaimTellsHowLongTheQueueHadWaited) {
  ring.add_jobs(queue, 100, seconds(10));
  const auto first = ring.try_claim(seconds(13));
  EXPECT_EQ(first->waited, seconds(3));
  const auto second = ring.try_claim(seconds(17));
  EXPECT_EQ(second->waited, seconds(4)) << "since the claim before";
  const auto early = ring.try_claim(seconds(11));
  EXPECT_EQ(early->waited, seconds(0)) << "a clock that is a little older does no harm";
  for (int i = 0; i < 3; ++i) (void)ring.settle(queue, {.executed = 10}, seconds(20));
}

TEST_F(FairRingJobsTest, OnlyAQueueThatHadNothingToClaimArrives) {
  const std::uint64_t before = ring.hints().arrivals();
  ring.add_jobs(queue, 1, kSomeTime);
  EXPECT_EQ(ring.hints().arrivals(), before + 1);
  ring.add_jobs(queue, 1, kSomeTime);
  EXPECT_EQ(ring.hints().arrivals(), before + 1);
  ring.pause(queue, kSomeTime);
  EXPECT_FALSE(ring.hints().has_work());
  ring.resume(queue, kSomeTime);
  EXPECT_EQ(ring.hints().arrivals(), before + 2);
  EXPECT_TRUE(ring.hints().has_work());
}

TEST_F(FairRingJobsTest, AQueueThatIsTakenOutLeavesNothingToClaim) {
  ring.add_jobs(queue, 30, kSomeTime);
  EXPECT_EQ(claim(), (IndexRange{0, 10}));
  EXPECT_EQ(ring.take_out(queue, kSomeTime), std::nullopt) << "jobs of it are claimed";
  EXPECT_TRUE(ring.hints().has_work());
  settle({0, 2}, {5, 10});
  // Three were stolen.
  EXPECT_EQ(ring.take_out(queue, kSomeTime), std::nullopt) << "a thief has jobs of it";
  const Charge thief = ring.join(queue, kSomeTime);
  EXPECT_EQ(ring.take_out(queue, kSomeTime), std::nullopt) << "the thief is at work";
  (void)ring.settle(queue, {.charged = thief, .left = {2, 5}}, kSomeTime);
  const auto taken = ring.take_out(queue, kSomeTime);
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->was_attached);
  EXPECT_FALSE(taken->is_closed);
  EXPECT_EQ(taken->ranges.front().low, 2u);
  EXPECT_EQ(taken->ranges.back().high, 30u);
  EXPECT_FALSE(ring.hints().has_work());
  EXPECT_FALSE(ring.try_claim(kSomeTime));
  EXPECT_FALSE(ring.view().queue(queue, kSomeTime).attached);
  EXPECT_EQ(ring.view().snapshot(1, kSomeTime).queued, 0u);
  const auto again = ring.take_out(queue, kSomeTime);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->was_attached);
}

TEST_F(FairRingJobsTest, TheRangesOfAQueueThatIsTakenOutAreInOrder) {
  ring.add_jobs(queue, 30, kSomeTime);
  EXPECT_EQ(claim(), (IndexRange{0, 10}));
  const Charge of_first = charged;
  EXPECT_EQ(claim(), (IndexRange{10, 20}));
  settle({10, 12}, {12, 14});
  charged = of_first;
  settle({0, 2}, {2, 4});
  const Charge thief = ring.join(queue, kSomeTime);  // ends the other twelve
  (void)ring.settle(queue, {.charged = thief, .executed = 12}, kSomeTime);
  EXPECT_THAT(ring.take_out(queue, kSomeTime)->ranges,
              ElementsAre(IndexRange{2, 4}, IndexRange{12, 14}, IndexRange{20, 30}));
}

// ---- Tenants without queues ----

// Tenant "gone" has left after a turn that cost more than its part, and "other" has work. The ring
// keeps no idle tenant for its counters alone.
class RetiredTenantTest : public ::testing::Test {
 protected:
  RetiredTenantTest() {
    ring.attach(other, {.tenant = "other", .cost_hint = milliseconds(1)}, nullptr);
    ring.add_jobs(other, 1000, kSomeTime);
    ring.attach(gone, {.tenant = "gone", .cost_hint = milliseconds(1)}, nullptr);
    ring.add_jobs(gone, 1, kSomeTime);
    ring.close(gone, kSomeTime);
    run(other, milliseconds(1));
    run(gone, milliseconds(10));
  }
  ~RetiredTenantTest() override { ring.detach_all(); }
  // The next turn is the queue's.
  void run(RingQueue& queue, Nanoseconds actual) {
    const auto claimed = ring.try_claim(kSomeTime);
    ASSERT_TRUE(claimed);
    EXPECT_EQ(claimed->queue, &queue);
    (void)ring.settle(
        queue, {.charged = claimed->charged, .actual = actual, .executed = claimed->range.size()}, kSomeTime);
  }
  // What the ring knows of the tenant's time, once it has come back.
  Nanoseconds remembered() {
    ring.attach(gone, {.tenant = "gone", .cost_hint = milliseconds(1)}, nullptr);
    for (const TenantView& tenant : ring.view().snapshot(0, kSomeTime).tenants) {
      if (tenant.tenant == "gone") return tenant.busy;
    }
    ADD_FAILURE() << "it is not there";
    return {};
  }
  FairRing ring{{.most_idle_tenants = 0}};
  RingQueue gone;
  RingQueue other;
};

TEST_F(RetiredTenantTest, ATenantThatIsAheadIsRememberedUntilTheOthersHaveCaughtUp) {
  for (int i = 0; i < 5; ++i) run(other, milliseconds(1));
  EXPECT_EQ(remembered(), milliseconds(10));
  ring.add_jobs(gone, 1, kSomeTime);
  for (int i = 0; i < 3; ++i) run(other, milliseconds(1));  // it has not paid yet
}

TEST_F(RetiredTenantTest, ATenantThatHasPaidIsForgotten) {
  for (int i = 0; i < 12; ++i) run(other, milliseconds(1));
  EXPECT_EQ(remembered(), Nanoseconds{0}) << "it is made anew";
}

TEST_F(RetiredTenantTest, ATenantIsForgottenWhenTheRingIsIdle) {
  EXPECT_FALSE(ring.cancel(other, kSomeTime).empty());
  EXPECT_EQ(remembered(), Nanoseconds{0});
}

TEST(IdleTenantTest, TheBusyTimeOfATenantOutlivesItsQueues) {
  FairRing ring({});
  for (int i = 1; i <= 3; ++i) {
    RingQueue queue;
    ring.attach(queue, {.tenant = "comes and goes"}, nullptr);
    ring.add_jobs(queue, 1, kSomeTime);
    ring.close(queue, kSomeTime);
    const auto claimed = ring.try_claim(kSomeTime);
    ASSERT_TRUE(claimed);
    EXPECT_FALSE(ring.view().snapshot(0, kSomeTime).tenants.at(0).is_idle);
    (void)ring.settle(queue, {.charged = claimed->charged, .actual = milliseconds(5), .executed = 1},
                      kSomeTime);
    const TenantView idle = ring.view().snapshot(0, kSomeTime).tenants.at(0);
    EXPECT_TRUE(idle.is_idle);
    EXPECT_EQ(idle.busy, milliseconds(5) * i);
  }
}

TEST(IdleTenantTest, OfMoreThanTheirMostThoseAreRemovedThatAreNotAhead) {
  FairRing ring({.most_idle_tenants = 2});
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    RingQueue queue;
    ring.attach(queue, {.tenant = name}, nullptr);
    ring.close(queue, kSomeTime);
  }
  EXPECT_EQ(ring.view().snapshot(0, kSomeTime).tenants.size(), 2u);
}

TEST_F(RetiredTenantTest, ATenantThatCameBackIsNotForgottenWhileItHasAQueue) {
  EXPECT_EQ(remembered(), milliseconds(10));
  for (int i = 0; i < 30; ++i) run(other, milliseconds(1));
  EXPECT_EQ(ring.view().snapshot(0, kSomeTime).tenants.size(), 2u);
}

}  // namespace
}  // namespace locksley
