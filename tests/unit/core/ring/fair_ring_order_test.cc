// Which queue is served next, and with how many jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_view.h"

namespace locksley {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::ElementsAre;

// A ring and queues that are let go at the end, with a clock that the test moves.
class FairRingOrderTest : public testing::Test {
 protected:
  static constexpr std::size_t kQueues = 8;

  ~FairRingOrderTest() override { ring().detach_all(); }

  FairRing& ring() {
    if (!ring_) ring_.emplace(options);
    return *ring_;
  }

  RingQueue& attach(std::size_t i, std::uint64_t jobs, QueueOptions queue_options = {}) {
    ring().attach(queues[i], queue_options, nullptr);
    ring().add_jobs(queues[i], jobs, now);
    return queues[i];
  }

  std::size_t index_of(const RingQueue* queue) const { return static_cast<std::size_t>(queue - queues); }

  // A turn that takes `each` a job and ends them all.
  Settlement done(const Claim& claim, Nanoseconds each) {
    const std::uint64_t jobs = claim.range.size();
    now += each * jobs;
    return {.charged = claim.charged, .actual = each * jobs, .executed = jobs};
  }

  // One worker takes n turns; which queues it served.
  std::vector<std::size_t> serve(std::size_t n, Nanoseconds each = milliseconds(1)) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < n; ++i) {
      const std::optional<Claim> claim = ring().try_claim(now);
      if (!claim) break;
      order.push_back(index_of(claim->queue));
      EXPECT_TRUE(ring().settle(*claim->queue, done(*claim, each), now).dropped.empty());
    }
    return order;
  }

  // As many executors as there are claims each make one; the sizes of these.
  std::vector<std::uint64_t> claim_all(Nanoseconds each) {
    std::vector<std::uint64_t> sizes;
    std::vector<Claim> claims;
    while (auto claim = ring().try_claim(now)) {
      sizes.push_back(claim->range.size());
      claims.push_back(*claim);
    }
    for (const Claim& claim : claims) (void)ring().settle(*claim.queue, done(claim, each), now);
    return sizes;
  }

  FairRing::Options options;
  RingQueue queues[kQueues];
  Nanoseconds now{1'000'000};

 private:
  std::optional<FairRing> ring_;
};

TEST_F(FairRingOrderTest, EqualWeightsAndCostsAreServedRoundRobin) {
  for (std::size_t i = 0; i < 4; ++i) attach(i, 100);
  EXPECT_THAT(serve(12), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
}

TEST_F(FairRingOrderTest, AnEmptyRingHasNothingToClaim) {
  EXPECT_FALSE(ring().try_claim(now));
  EXPECT_FALSE(ring().hints().has_work());
  attach(0, 0);
  EXPECT_FALSE(ring().try_claim(now));
  EXPECT_FALSE(ring().hints().has_work());
}

TEST_F(FairRingOrderTest, HasWorkUntilTheLastJobIsClaimed) {
  attach(0, 2);
  EXPECT_TRUE(ring().hints().has_work());
  const auto first = ring().try_claim(now);
  EXPECT_TRUE(ring().hints().has_work());
  const auto second = ring().try_claim(now);
  EXPECT_FALSE(ring().hints().has_work());
  EXPECT_FALSE(ring().try_claim(now));
  (void)ring().settle(queues[0], done(*first, milliseconds(1)), now);
  EXPECT_FALSE(ring().hints().has_work());
  (void)ring().settle(queues[0], {.charged = second->charged, .left = second->range}, now);
  EXPECT_TRUE(ring().hints().has_work());
}

TEST_F(FairRingOrderTest, ANewcomerIsServedByTheNextFreeWorker) {
  attach(0, 1'000'000);
  serve(50, microseconds(10));
  attach(1, 10);
  EXPECT_EQ(serve(1), std::vector<std::size_t>{1});
}

TEST_F(FairRingOrderTest, SeveralWorkersTakeDifferentQueues) {
  for (std::size_t i = 0; i < 3; ++i) attach(i, 100);
  std::vector<Claim> claims;
  for (int i = 0; i < 3; ++i) claims.push_back(*ring().try_claim(now));
  std::vector<std::size_t> taken;
  for (const Claim& claim : claims) taken.push_back(index_of(claim.queue));
  EXPECT_THAT(taken, testing::UnorderedElementsAre(0, 1, 2));
  for (const Claim& claim : claims) (void)ring().settle(*claim.queue, done(claim, milliseconds(1)), now);
}

TEST_F(FairRingOrderTest, AtEqualKeysTheOneWithFewerExecutorsIsServed) {
  attach(0, 100, {.cost_hint = milliseconds(1)});
  attach(1, 100, {.cost_hint = milliseconds(1)});
  const auto first = ring().try_claim(now);
  const auto second = ring().try_claim(now);
  ASSERT_EQ(second->queue, &queues[1]);
  (void)ring().settle(queues[1], done(*second, milliseconds(1)), now);
  const auto third = ring().try_claim(now);
  EXPECT_EQ(third->queue, &queues[1]) << "served later than the other, but that one has a worker";
  (void)ring().settle(queues[0], done(*first, milliseconds(1)), now);
  (void)ring().settle(queues[1], done(*third, milliseconds(1)), now);
}

TEST_F(FairRingOrderTest, OneQueueAloneGetsAllWorkers) {
  options.parallelism = 4;
  attach(0, 100);
  std::vector<Claim> claims;
  for (int i = 0; i < 4; ++i) claims.push_back(*ring().try_claim(now));
  EXPECT_EQ(ring().view().queue(queues[0], now).executors, 4U);
  for (const Claim& claim : claims) (void)ring().settle(*claim.queue, done(claim, milliseconds(1)), now);
}

TEST_F(FairRingOrderTest, OfUnknownCostOneJobIsClaimed) {
  attach(0, 1'000'000);
  const auto claim = ring().try_claim(now);
  EXPECT_EQ(claim->range, (IndexRange{0, 1}));
  EXPECT_EQ(claim->charged.time, options.quantum);
  (void)ring().settle(queues[0], done(*claim, microseconds(1)), now);
}

TEST_F(FairRingOrderTest, AClaimGrowsToWhatTakesAQuantum) {
  attach(0, 1'000'000'000);
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < 9; ++i) {
    const auto claim = ring().try_claim(now);
    sizes.push_back(claim->range.size());
    (void)ring().settle(queues[0], done(*claim, microseconds(1)), now);
  }
  EXPECT_THAT(sizes, ElementsAre(1, 4, 16, 64, 256, 1000, 1000, 1000, 1000));
}

TEST_F(FairRingOrderTest, OneMeasurementThatIsFarTooSmallDoesNotClaimTheBatch) {
  attach(0, 1'000'000'000);
  serve(20, microseconds(100));
  const auto claim = ring().try_claim(now);
  EXPECT_EQ(claim->range.size(), 10U);
  (void)ring().settle(queues[0], {.charged = claim->charged, .actual = Nanoseconds{1}, .executed = 10}, now);
  const auto next = ring().try_claim(now);
  EXPECT_LE(next->range.size(), 40U);
  (void)ring().settle(queues[0], done(*next, microseconds(100)), now);
}

TEST_F(FairRingOrderTest, ACostHintSizesTheFirstClaim) {
  attach(0, 1'000'000, {.cost_hint = microseconds(10)});
  const auto claim = ring().try_claim(now);
  EXPECT_EQ(claim->range.size(), 100U);
  EXPECT_EQ(claim->charged.time, milliseconds(1));
  (void)ring().settle(queues[0], done(*claim, microseconds(10)), now);
}

TEST_F(FairRingOrderTest, AClaimLeavesEveryWorkerItsPartOfTheRest) {
  options.parallelism = 4;
  attach(0, 10, {.cost_hint = microseconds(20)});
  EXPECT_THAT(claim_all(microseconds(20)), ElementsAre(3, 2, 2, 1, 1, 1));
}

TEST_F(FairRingOrderTest, TheRestIsNotSharedInClaimsOfLessThanAHundredthOfAQuantum) {
  options.parallelism = 4;
  attach(0, 100, {.cost_hint = microseconds(1)});
  EXPECT_THAT(claim_all(microseconds(1)), ElementsAre(25, 19, 14, 11, 10, 10, 10, 1));
}

TEST_F(FairRingOrderTest, WhatAClaimItselfTakesCountsLessOnceClaimsAreLarge) {
  attach(0, 1'000'000);
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < 7; ++i) {
    const auto claim = ring().try_claim(now);
    sizes.push_back(claim->range.size());
    const Nanoseconds actual = microseconds(100) + microseconds(1) * claim->range.size();
    (void)ring().settle(queues[0], {.charged = claim->charged, .actual = actual, .executed = sizes.back()},
                        now);
  }
  EXPECT_GE(sizes.back(), 256U) << "the quantum is a thousand of these jobs";
}

TEST_F(FairRingOrderTest, WhatWasGivenBackIsServedBeforeTheRest) {
  attach(0, 100, {.cost_hint = microseconds(100)});
  const auto first = ring().try_claim(now);
  const auto second = ring().try_claim(now);
  ASSERT_EQ(first->range, (IndexRange{0, 10}));
  ASSERT_EQ(second->range, (IndexRange{10, 20}));
  const auto settle = [&](const Claim& claim, std::uint64_t executed) {
    (void)ring().settle(queues[0],
                        {.charged = claim.charged,
                         .actual = microseconds(100) * executed,
                         .executed = executed,
                         .left = {claim.range.low + executed, claim.range.high}},
                        now);
  };
  settle(*first, 4);
  const auto third = ring().try_claim(now);
  EXPECT_EQ(third->range, (IndexRange{4, 10}));
  settle(*second, 5);  // joins the cursor again
  settle(*third, 6);
  const auto fourth = ring().try_claim(now);
  EXPECT_EQ(fourth->range, (IndexRange{15, 25}));
  settle(*fourth, 10);
  EXPECT_EQ(ring().view().queue(queues[0], now).queued, 75U);
}

TEST_F(FairRingOrderTest, RangesCanBeAddedAndJobsGoOnBehindThem) {
  ring().attach(queues[0], {.cost_hint = milliseconds(1)}, nullptr);
  ring().add_jobs(queues[0], 2, now);
  EXPECT_TRUE(ring().add_range(queues[0], {5, 7}, now));
  EXPECT_TRUE(ring().add_range(queues[0], {3, 4}, now));
  EXPECT_TRUE(ring().add_jobs(queues[0], 1, now));
  std::vector<std::uint64_t> seen;
  while (auto claim = ring().try_claim(now)) {
    for (std::uint64_t i = claim->range.low; i < claim->range.high; ++i) seen.push_back(i);
    (void)ring().settle(queues[0], done(*claim, milliseconds(1)), now);
  }
  EXPECT_THAT(seen, testing::UnorderedElementsAre(0, 1, 3, 5, 6, 7));
}

TEST_F(FairRingOrderTest, SettleAndClaimIsSettleThenClaim) {
  attach(0, 100);
  attach(1, 100);
  auto claim = ring().try_claim(now);
  std::vector<std::size_t> order;
  for (int i = 0; i < 6; ++i) {
    order.push_back(index_of(claim->queue));
    claim = ring().settle_and_claim(*claim->queue, done(*claim, milliseconds(1)), now).claim;
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 0, 1, 0, 1));
  (void)ring().settle(*claim->queue, done(*claim, milliseconds(1)), now);
}

TEST_F(FairRingOrderTest, AClaimSaysHowLongItsQueueHadWaited) {
  attach(0, 10);
  now += microseconds(70);
  const auto first = ring().try_claim(now);
  EXPECT_EQ(first->waited, microseconds(70));
  now += microseconds(30);
  const auto second = ring().try_claim(now);
  EXPECT_EQ(second->waited, microseconds(30));
  (void)ring().settle(queues[0], done(*first, milliseconds(1)), now);
  (void)ring().settle(queues[0], done(*second, milliseconds(1)), now);
}

struct Item {
  std::uint32_t place = std::numeric_limits<std::uint32_t>::max();
  int key = 0;
};
std::uint32_t& place_of(Item& item) { return item.place; }

TEST(IndexedHeapTest, GivesElementsInOrderWhileKeysChange) {
  IndexedHeap<Item, int, &place_of> heap;
  std::vector<Item> items(500);
  std::uint32_t random = 12345;
  const auto next = [&] { return static_cast<int>((random = random * 1664525 + 1013904223) >> 12); };
  for (Item& item : items) heap.push(item, item.key = next());
  for (int i = 0; i < 5000; ++i) {
    Item& item = items[static_cast<std::size_t>(next()) % items.size()];
    if (item.place == kNotInHeap) {
      heap.push(item, item.key = next());
    } else if (i % 3 == 0) {
      heap.remove(item);
      EXPECT_EQ(item.place, kNotInHeap);
    } else {
      heap.update(item, item.key = next());
    }
    int least = std::numeric_limits<int>::max();
    for (const Item& each : items) {
      if (each.place != kNotInHeap) least = std::min(least, each.key);
    }
    ASSERT_EQ(heap.top().key, least);
  }
}

TEST(DecayingSumTest, ForgetsWithItsTimeConstant) {
  DecayingSum sum;
  sum.add(1000, Nanoseconds{0});
  EXPECT_DOUBLE_EQ(sum.at(Nanoseconds{0}), 1000);
  EXPECT_NEAR(sum.at(DecayingSum::kTimeConstant), 1000 / 2.718281828, 1e-3);
  EXPECT_NEAR(sum.at(2 * DecayingSum::kTimeConstant), 1000 / 7.389056, 1e-3);
  EXPECT_EQ(sum.at(std::chrono::hours(1)), 0);
  sum.add(500, std::chrono::hours(1));
  EXPECT_DOUBLE_EQ(sum.at(std::chrono::hours(1)), 500);
  sum.add(1, Nanoseconds{0});
  EXPECT_DOUBLE_EQ(sum.at(Nanoseconds{0}), 501) << "a clock that lags does no harm";
}

TEST(DecayingSumTest, SteadyServiceComesToTheTimeConstant) {
  DecayingSum sum;
  Nanoseconds now{0};
  for (int i = 0; i < 60'000; ++i) sum.add(1e6, now += milliseconds(1));
  EXPECT_NEAR(sum.at(now) / static_cast<double>(DecayingSum::kTimeConstant.count()), 1, 0.01);
  EXPECT_NEAR(DecayingSum::spread(std::chrono::minutes(1)) / sum.at(now), 1, 0.01)
      << "one long service counts the same";
}

}  // namespace
}  // namespace locksley
