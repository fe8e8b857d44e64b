// Turns that last long: of several executors, charged as they run, given back in parts, and
// reclaimed.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <vector>

#include "core/base/index_ranges.h"
#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_leases.h"
#include "core/ring/fair_ring_view.h"

namespace locksley::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using Ranges = std::vector<IndexRange>;
constexpr Nanoseconds kNow{0};

class FairRingLeasesTest : public ::testing::Test {
 protected:
  ~FairRingLeasesTest() override { ring.detach_all(); }
  void attach(RingQueue& queue, std::uint64_t jobs, QueueOptions options = {}) {
    ring.attach(queue, options, nullptr);
    ring.add_jobs(queue, jobs, kNow);
  }
  void settle(const Claim& claim, Nanoseconds used) {
    (void)ring.settle(*claim.queue,
                      {.charged = claim.charged, .actual = used, .executed = claim.range.size()}, kNow);
  }
  // Every index that is queued, in the order of service.
  std::vector<std::uint64_t> drain() {
    std::vector<std::uint64_t> order;
    while (const auto claim = ring.try_claim(kNow)) {
      for (std::uint64_t i = claim->range.low; i < claim->range.high; ++i) order.push_back(i);
      settle(*claim, milliseconds(1));
    }
    return order;
  }

  RingQueue a, b;
  FairRing ring{{.quantum = milliseconds(1)}};
};

TEST_F(FairRingLeasesTest, ATurnCountsAsManyExecutorsAsItHasWidth) {
  attach(a, 100, {.cost_hint = Nanoseconds(10'000)});
  const auto claim = ring.try_claim(kNow, ClaimRequest{.most = 8, .width = 4});
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->charged.width(), 4U);
  EXPECT_EQ(ring.view().queue(a, kNow).executors, 4U);
  EXPECT_EQ(ring.view().snapshot(0, kNow).executors, 4U);
  settle(*claim, milliseconds(4));
  EXPECT_EQ(ring.view().queue(a, kNow).executors, 0U);
  EXPECT_EQ(ring.view().snapshot(0, kNow).executors, 0U);
  EXPECT_EQ(ring.view().snapshot(0, kNow).tenants.front().busy, milliseconds(4));
}

// Else a worker that holds very many slots, and gives nearly all of their jobs back, would make the
// batch seem to cost hours a job.
TEST_F(FairRingLeasesTest, WhatGoesBackIsNoCostOfTheJobsThatEnded) {
  attach(a, 100);
  const auto hold = [&](std::uint64_t executed) {
    auto claim = ring.try_claim(kNow, ClaimRequest{.most = 8, .width = 8, .quantum = minutes(1)});
    IndexRange left = claim->range;
    left.low += executed;
    (void)ring.settle(*claim->queue,
                      {.charged = claim->charged,
                       .actual = claim->charged.width() * seconds(10),
                       .executed = executed,
                       .left = left},
                      kNow);
  };
  settle(ring.try_claim(kNow, ClaimRequest{.most = 1}).value(), seconds(10));
  for (const std::uint64_t executed : {0U, 0U, 1U, 0U, 1U}) hold(executed);
  const auto claim = ring.try_claim(kNow, ClaimRequest{.most = 1});
  EXPECT_EQ(claim->charged.time, seconds(10));
  settle(*claim, seconds(10));
}

// Else what very many executors are charged could overflow, and a wrong estimate of years would
// keep the clocks ahead for years.
TEST_F(FairRingLeasesTest, AnHourOfEachExecutorIsChargedInAdvanceAtMost) {
  attach(a, 100, {.cost_hint = std::chrono::hours(10'000)});
  for (const std::uint32_t width : {1U, 4U}) {
    const auto claim =
        ring.try_claim(kNow, ClaimRequest{.most = 4, .width = width, .quantum = std::chrono::hours(40'000)});
    ASSERT_EQ(claim->charged.width(), width);
    EXPECT_EQ(claim->charged.time, width * std::chrono::hours(1));
    settle(*claim, width * std::chrono::hours(20'000));
  }
}

// A machine whose clock is wrong seems to use decades, again and again. The ring's clocks move on
// by that: among tenants, or among batches or customers of one tenant of great weight.
TEST_F(FairRingLeasesTest, DecadesThatAreTakenBackLeaveTheKeysInRange) {
  constexpr Nanoseconds kDecades{RingLevel::kMostService};
  struct Second {
    const char *tenant, *customer;
    std::uint32_t weight;
  };
  for (const Second& other : {Second{"b", "", 1}, Second{"a", "", 1'000}, Second{"a", "c", 1'000}}) {
    FairRing far({.quantum = milliseconds(1)});
    far.groups().set_tenant_weight("a", other.weight);
    RingQueue first, second;
    far.attach(first, {.tenant = "a"}, nullptr);
    far.attach(second, {.tenant = other.tenant, .customer = other.customer}, nullptr);
    for (int round = 0; round < 40; ++round) {
      for (RingQueue* const queue : {&first, &second}) far.add_jobs(*queue, 2, kNow);
      std::vector<Claim> turns;
      std::map<const RingQueue*, int> of_queue;
      for (int i = 0; i < 4; ++i) {
        turns.push_back(far.try_claim(kNow, ClaimRequest{.most = 1}).value());
        Claim& turn = turns.back();
        far.leases().charge_so_far(*turn.queue, turn.charged, kDecades, kNow);
        EXPECT_EQ(++of_queue[turn.queue], i / 2 + 1)
            << other.tenant << other.customer << ": turn " << i << " of round " << round;
      }
      for (const Claim& turn : turns)
        (void)far.settle(*turn.queue, {.charged = turn.charged, .actual = milliseconds(1), .executed = 1},
                         kNow);
    }
    far.detach_all();
  }
}

TEST_F(FairRingLeasesTest, SlotsBoundTheWidthAndTheJobsOfATurn) {
  attach(a, 100, {.slots = 3, .cost_hint = Nanoseconds(1'000)});
  const auto first = ring.try_claim(kNow, ClaimRequest{.most = 10, .width = 2});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->charged.width(), 2U);
  const auto second = ring.try_claim(kNow, ClaimRequest{.width = 2});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->charged.width(), 1U) << "one slot was left";
  EXPECT_EQ(second->range.size(), 1U) << "else a machine with two slots would run two";
  EXPECT_FALSE(ring.try_claim(kNow, ClaimRequest{.width = 1}));
  EXPECT_TRUE(ring.view().queue(a, kNow).at_slots);
  settle(*second, milliseconds(1));
  EXPECT_TRUE(ring.view().queue(a, kNow).waiting);
  settle(*first, milliseconds(1));
}

TEST_F(FairRingLeasesTest, ATurnOfFewJobsCountsAsFewExecutors) {
  attach(a, 2);
  const auto claim = ring.try_claim(kNow, ClaimRequest{.width = 64});
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->range.size(), 2U) << "of unknown cost: one for each executor";
  EXPECT_EQ(claim->charged.width(), 2U);
  settle(*claim, milliseconds(1));
}

TEST_F(FairRingLeasesTest, ClaimsAreOfOneQuantumForEachExecutor) {
  attach(a, 1'000'000, {.cost_hint = milliseconds(1)});
  const auto narrow = ring.try_claim(kNow, ClaimRequest{.quantum = milliseconds(10)});
  ASSERT_TRUE(narrow);
  EXPECT_EQ(narrow->range.size(), 10U);
  EXPECT_EQ(narrow->charged.time, milliseconds(10));
  const auto wide = ring.try_claim(kNow, ClaimRequest{.width = 8, .quantum = milliseconds(10)});
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->range.size(), 80U);
  EXPECT_EQ(wide->charged.time, milliseconds(80));
  settle(*narrow, milliseconds(10));
  settle(*wide, milliseconds(80));
}

TEST_F(FairRingLeasesTest, RemoteClaimsGrowSixteenfoldUpToAQuantum) {
  attach(a, 1'000'000, {.gate = *ring.gates().add({.is_remote = true})});
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < 5; ++i) {
    const auto claim = ring.try_claim(kNow, ClaimRequest{.site = Site::kRemote});
    sizes.push_back(claim->range.size());
    settle(*claim, microseconds(claim->range.size()));
  }
  EXPECT_THAT(sizes, ElementsAre(1, 16, 256, 1000, 1000));
}

// A lease costs both machines more than a turn costs a worker here.
TEST_F(FairRingLeasesTest, RemoteClaimsShareTheRestInPartsOfATenthOfAQuantum) {
  FairRing shared{{.quantum = milliseconds(1), .parallelism = 4}};
  const GateId gate = *shared.gates().add({.is_remote = true});
  shared.attach(a, {.cost_hint = microseconds(1), .gate = gate}, nullptr);
  shared.add_jobs(a, 1'000, kNow);
  std::vector<std::uint64_t> sizes;
  while (const auto claim = shared.try_claim(kNow, ClaimRequest{.site = Site::kRemote})) {
    sizes.push_back(claim->range.size());
    (void)shared.settle(a,
                        {.charged = claim->charged,
                         .actual = microseconds(claim->range.size()),
                         .executed = claim->range.size()},
                        kNow);
  }
  EXPECT_THAT(sizes, ElementsAre(250, 188, 141, 106, 100, 100, 100, 15));
  shared.detach_all();
}

TEST_F(FairRingLeasesTest, ATenantWithLongTurnsIsChargedWhileTheyRun) {
  attach(a, 100, {.tenant = "long"});
  attach(b, 100, {.tenant = "short"});
  auto lease = ring.try_claim(kNow, ClaimRequest{.width = 10});
  ASSERT_TRUE(lease);
  ASSERT_EQ(lease->queue, &a);
  ring.leases().charge_so_far(a, lease->charged, seconds(600), kNow);
  // 600 s of the other tenant come first: as many turns of one second.
  for (int i = 0; i < 100; ++i) {
    const auto claim = ring.try_claim(kNow, ClaimRequest{.most = 1});
    ASSERT_TRUE(claim);
    ASSERT_EQ(claim->queue, &b) << i;
    settle(*claim, seconds(1));
  }
  settle(*lease, seconds(600));
}

TEST_F(FairRingLeasesTest, EachExecutorOfATurnCountsAsServiceWhileItRunsAndOnceItHasEnded) {
  attach(a, 100, {.tenant = "a", .cost_hint = Nanoseconds(10'000)});
  attach(b, 100, {.tenant = "b"});
  const auto wide = ring.try_claim(kNow, ClaimRequest{.width = 3});
  const auto narrow = ring.try_claim(kNow, ClaimRequest{.most = 1});
  ASSERT_TRUE(wide && narrow);
  ASSERT_EQ(wide->queue, &a);
  ASSERT_EQ(wide->charged.width(), 3U);
  ASSERT_EQ(narrow->queue, &b);
  const auto expect_three_quarters = [&](Nanoseconds now) {
    EXPECT_NEAR(ring.view().queue(a, now).received, 0.75, 0.01);
    EXPECT_NEAR(ring.view().queue(b, now).received, 0.25, 0.01);
    for (const TenantView& tenant : ring.view().snapshot(0, now).tenants) {
      EXPECT_NEAR(tenant.received, tenant.tenant == "a" ? 0.75 : 0.25, 0.01) << tenant.tenant;
    }
  };
  expect_three_quarters(seconds(5));
  const Nanoseconds end = seconds(10);
  for (const Claim* const claim : {&*wide, &*narrow}) {
    (void)ring.settle(
        *claim->queue,
        {.charged = claim->charged, .actual = end * claim->charged.width(), .executed = claim->range.size()},
        end);
  }
  expect_three_quarters(end);
}

TEST_F(FairRingLeasesTest, ChargesAsATurnRunsAddUpToItsSettlement) {
  attach(a, 100, {.tenant = "a"});
  attach(b, 100, {.tenant = "b"});
  auto charged_twice = ring.try_claim(kNow);
  auto charged_once = ring.try_claim(kNow);
  ASSERT_TRUE(charged_twice && charged_once);
  for (const int so_far : {1, 3, 2, 4})
    ring.leases().charge_so_far(a, charged_twice->charged, seconds(so_far), kNow);
  settle(*charged_twice, seconds(5));
  settle(*charged_once, seconds(5));
  // Both have received the same: they take turns.
  std::map<RingQueue*, int> turns;
  for (int i = 0; i < 20; ++i) {
    const auto claim = ring.try_claim(kNow, ClaimRequest{.most = 1});
    ASSERT_TRUE(claim);
    ++turns[claim->queue];
    settle(*claim, seconds(1));
  }
  EXPECT_EQ(turns[&a], 10);
}

TEST_F(FairRingLeasesTest, AnOverestimateThatWasChargedIsCorrectedInTheEnd) {
  attach(a, 100, {.tenant = "a"});
  attach(b, 100, {.tenant = "b"});
  auto claim = ring.try_claim(kNow);
  ASSERT_TRUE(claim);
  ring.leases().charge_so_far(a, claim->charged, seconds(100), kNow);
  settle(*claim, Nanoseconds(0));
  const auto next = ring.try_claim(kNow, ClaimRequest{.most = 1});
  ASSERT_TRUE(next);
  settle(*next, seconds(1));
  EXPECT_EQ(next->queue, &b) << "neither has received anything, and b has waited longer";
  const auto last = ring.try_claim(kNow, ClaimRequest{.most = 1});
  ASSERT_TRUE(last);
  EXPECT_EQ(last->queue, &a);
  settle(*last, seconds(1));
}

TEST_F(FairRingLeasesTest, JobsGoBackWhileTheTurnGoesOn) {
  attach(a, 10, {.cost_hint = Nanoseconds(1)});
  const auto claim = ring.try_claim(kNow);
  ASSERT_TRUE(claim);
  ASSERT_EQ(claim->range.size(), 10U);
  const Ranges back{{2, 4}, {7, 10}};
  EXPECT_TRUE(ring.leases().give_back(a, back, 5, kNow).empty());
  EXPECT_EQ(ring.view().queue(a, kNow).queued, 5U);
  EXPECT_EQ(ring.view().snapshot(0, kNow).claimed, 5U);
  EXPECT_EQ(drain(), (std::vector<std::uint64_t>{2, 3, 7, 8, 9})) << "the lowest first";
  (void)ring.settle(a, {.charged = claim->charged, .actual = milliseconds(1), .executed = 5}, kNow);
  EXPECT_EQ(ring.view().snapshot(0, kNow).claimed, 0U);
}

TEST_F(FairRingLeasesTest, WhatGoesBackToACancelledQueueIsDropped) {
  attach(a, 10, {.cost_hint = Nanoseconds(1)});
  const auto claim = ring.try_claim(kNow);
  ASSERT_TRUE(claim);
  EXPECT_TRUE(ring.cancel(a, kNow).empty());
  const Ranges back{{5, 10}};
  EXPECT_EQ(ring.leases().give_back(a, back, 5, kNow), back);
  EXPECT_TRUE(ring.view().queue(a, kNow).attached) << "until the turn is settled";
  (void)ring.settle(a, {.charged = claim->charged, .executed = 5}, kNow);
  EXPECT_FALSE(ring.view().queue(a, kNow).attached);
}

TEST_F(FairRingLeasesTest, StartsThatACancelledQueueGivesBackAreAtOnceForTheOthersOfItsCustomer) {
  const QueueOptions slow{.tenant = "shop", .customer = "slow"};
  attach(a, 10, slow);
  attach(b, 10, slow);
  ring.groups().set_customer_limits("shop", "slow", {.start_interval = minutes(1)}, kNow);
  const auto claim = ring.try_claim(kNow, ClaimRequest{.most = 1});
  ASSERT_TRUE(claim);
  RingQueue& other = claim->queue == &a ? b : a;
  EXPECT_FALSE(ring.try_claim(kNow));
  (void)ring.cancel(*claim->queue, kNow);
  EXPECT_EQ(ring.leases().give_back(*claim->queue, {{claim->range}}, 1, kNow), Ranges{claim->range});
  EXPECT_TRUE(ring.hints().has_work());
  const auto next = ring.try_claim(kNow);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->queue, &other);
  settle(*next, milliseconds(1));
  (void)ring.settle(*claim->queue, {.charged = claim->charged}, kNow);
}

TEST_F(FairRingLeasesTest, ReclaimTakesWhatIsQueuedAndNothingElse) {
  attach(a, 100, {.cost_hint = Nanoseconds(1'000'000)});
  ring.set_quantum(milliseconds(30));
  const auto claim = ring.try_claim(kNow);  // 0 to 29
  ASSERT_TRUE(claim);
  ASSERT_EQ(claim->range, (IndexRange{0, 30}));
  const Ranges back{{10, 20}};
  (void)ring.leases().give_back(a, back, 5, kNow);
  const auto reclaimed = ring.leases().reclaim(a, {5, 40}, 4, kNow);
  ASSERT_TRUE(reclaimed);
  EXPECT_EQ(reclaimed->ranges, (Ranges{{10, 20}, {30, 40}}));
  EXPECT_EQ(reclaimed->charged.width(), 4U);
  EXPECT_EQ(ring.view().queue(a, kNow).executors, 5U);
  EXPECT_EQ(ring.view().queue(a, kNow).queued, 60U);
  EXPECT_FALSE(ring.leases().reclaim(a, {5, 40}, 4, kNow)) << "exactly one turn holds each job";
  (void)ring.settle(a, {.charged = reclaimed->charged, .executed = 20}, kNow);
  (void)ring.settle(a, {.charged = claim->charged, .executed = 20}, kNow);
  std::vector<std::uint64_t> rest;
  for (std::uint64_t i = 40; i < 100; ++i) rest.push_back(i);
  EXPECT_EQ(drain(), rest);
}

TEST_F(FairRingLeasesTest, ReclaimTakesEveryPartOfWhatWasNeverClaimed) {
  for (const IndexRange wanted : {IndexRange{0, 4}, {3, 7}, {6, 10}, {0, 10}}) {
    RingQueue queue;
    attach(queue, 10);
    const auto reclaimed = ring.leases().reclaim(queue, wanted, 1, kNow);
    ASSERT_TRUE(reclaimed);
    EXPECT_EQ(reclaimed->ranges, Ranges{wanted});
    (void)ring.settle(queue, {.charged = reclaimed->charged, .executed = wanted.size()}, kNow);
    ring.add_jobs(queue, 2, kNow);
    std::vector<std::uint64_t> seen = drain();
    EXPECT_EQ(seen.size(), 12 - wanted.size());
    for (const std::uint64_t index : seen) EXPECT_FALSE(index >= wanted.low && index < wanted.high);
    ring.close(queue, kNow);
  }
}

TEST_F(FairRingLeasesTest, ReclaimSucceedsWhateverKeepsTheQueueFromBeingServed) {
  attach(a, 10, {.slots = 1});
  ring.pause(a, kNow);
  const auto reclaimed = ring.leases().reclaim(a, {0, 5}, 2, kNow);
  ASSERT_TRUE(reclaimed);
  EXPECT_EQ(ring.view().queue(a, kNow).executors, 2U) << "the jobs run already";
  (void)ring.settle(a, {.charged = reclaimed->charged, .executed = 5}, kNow);
  RingQueue gone;
  EXPECT_FALSE(ring.leases().reclaim(gone, {0, 5}, 1, kNow)) << "a queue that is not in the ring has no jobs";
}

}  // namespace
}  // namespace locksley::test
