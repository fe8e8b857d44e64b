// A queue's life, what can be changed while it is queued, and what can be seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/ring_simulator.h"

namespace locksley::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using Batch = RingSimulator::Batch;

constexpr Nanoseconds kNow{1'000};

// A queue that its ring alone keeps alive, as a batch is that nobody asks for any more.
struct Owned {
  RingQueue queue;
  static RingQueue& attach(FairRing& ring, std::weak_ptr<Owned>& weak, QueueOptions options = {}) {
    auto owned = std::make_shared<Owned>();
    weak = owned;
    ring.attach(owned->queue, options, owned);
    return owned->queue;
  }
};

TEST(FairRingControlTest, AQueueLivesUntilItIsClosedDrainedAndSettled) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak);
  ring.add_jobs(queue, 1, kNow);
  const auto claim = ring.try_claim(kNow);
  EXPECT_TRUE(ring.settle(queue, {.charged = claim->charged, .executed = 1}, kNow).dropped.empty());
  EXPECT_FALSE(weak.expired()) << "open";
  ring.add_jobs(queue, 1, kNow);
  ring.close(queue, kNow);
  EXPECT_FALSE(weak.expired()) << "has a job";
  EXPECT_FALSE(ring.add_jobs(queue, 1, kNow)) << "closed";
  const auto last = ring.try_claim(kNow);
  ASSERT_TRUE(last);
  EXPECT_FALSE(weak.expired()) << "has an executor";
  EXPECT_FALSE(ring.settle_and_claim(queue, {.charged = last->charged, .executed = 1}, kNow).claim);
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(ring.snapshot(1, kNow).queues, 0U);
}

TEST(FairRingControlTest, ClosingAnEmptyQueueLetsItGoAtOnce) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak);
  ring.close(queue, kNow);
  EXPECT_TRUE(weak.expired());
}

TEST(FairRingControlTest, WhatIsHandedBackKeepsAClosedQueue) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak);
  ring.add_jobs(queue, 1, kNow);
  ring.close(queue, kNow);
  const auto claim = ring.try_claim(kNow);
  (void)ring.settle(queue, {.charged = claim->charged, .left = claim->range}, kNow);
  EXPECT_FALSE(weak.expired());
  EXPECT_TRUE(ring.has_work());
  ring.detach_all();
  EXPECT_TRUE(weak.expired());
}

// A keepalive's deleter may call the ring: it runs without the mutex.
TEST(FairRingControlTest, KeepalivesAreReleasedOutsideTheLock) {
  FairRing ring({});
  RingQueue queues[3];
  int released = 0;
  const auto keepalive = [&] {
    return std::shared_ptr<void>(&released, [&ring](void* count) {
      (void)ring.snapshot(1, kNow);
      ++*static_cast<int*>(count);
    });
  };
  for (RingQueue& queue : queues) ring.attach(queue, {}, keepalive());
  ring.add_jobs(queues[0], 1, kNow);
  ring.close(queues[0], kNow);
  ring.close(queues[1], kNow);
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(ring.cancel(queues[2], kNow).empty());
  EXPECT_EQ(released, 2);
  const auto claim = ring.try_claim(kNow);
  (void)ring.settle_and_claim(queues[0], {.charged = claim->charged, .executed = 1}, kNow);
  EXPECT_EQ(released, 3);
}

TEST(FairRingControlTest, AQueueThatHasLeftCanBeAttachedAgain) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 3, kNow);
  EXPECT_THAT(ring.cancel(queue, kNow), ElementsAre(IndexRange{0, 3}));
  EXPECT_FALSE(ring.view(queue, kNow).attached);
  ring.attach(queue, {}, nullptr);
  EXPECT_TRUE(ring.add_range(queue, {1, 2}, kNow));
  EXPECT_EQ(ring.try_claim(kNow)->range, (IndexRange{1, 2}));
  (void)ring.settle(queue, {.executed = 1}, kNow);
  ring.close(queue, kNow);
}

TEST(FairRingControlTest, CallsOnAQueueThatHasLeftDoNothing) {
  FairRing ring({});
  RingQueue queue;
  ring.set_weight(queue, 3);
  ring.pause(queue, kNow);
  ring.resume(queue, kNow);
  ring.set_slots(queue, 3, kNow);
  ring.close(queue, kNow);
  EXPECT_TRUE(ring.cancel(queue, kNow).empty());
  EXPECT_FALSE(ring.try_join(queue, kNow));
  EXPECT_FALSE(ring.add_jobs(queue, 3, kNow));
  EXPECT_FALSE(ring.has_work());
}

TEST(FairRingControlTest, CancelDropsWhatIsQueuedAndWhatIsHandedBackLater) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {.cost_hint = microseconds(100)}, nullptr);
  ring.add_jobs(queue, 100, kNow);
  const auto first = ring.try_claim(kNow);
  const auto second = ring.try_claim(kNow);
  (void)ring.settle(queue, {.charged = first->charged, .executed = 4, .left = {4, 10}}, kNow);
  EXPECT_THAT(ring.cancel(queue, kNow),
              testing::UnorderedElementsAre(IndexRange{4, 10}, IndexRange{20, 100}));
  EXPECT_FALSE(ring.has_work());
  EXPECT_FALSE(ring.try_join(queue, kNow));
  EXPECT_EQ(ring.settle(queue, {.charged = second->charged, .executed = 3, .left = {13, 20}}, kNow).dropped,
            (IndexRange{13, 20}));
  EXPECT_FALSE(ring.view(queue, kNow).attached);
}

TEST(FairRingControlTest, PilesOfACancelledQueueAreStillServed) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 2, kNow);
  const auto claim = ring.try_claim(kNow);
  ring.pause(queue, kNow);
  (void)ring.cancel(queue, kNow);
  int stands_for_a_pile = 0;
  auto* pile = reinterpret_cast<TaskPile*>(&stands_for_a_pile);
  (void)ring.settle(queue, {.charged = claim->charged, .pile = pile}, kNow);
  const auto next = ring.try_claim(kNow);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->pile, pile);
  (void)ring.settle(queue, {.charged = next->charged, .executed = 1}, kNow);
  EXPECT_FALSE(ring.view(queue, kNow).attached);
}

TEST(FairRingControlTest, PauseHoldsAtOnceAndResumeEarnsNothing) {
  RingSimulator simulator({}, 1);
  Batch& a = simulator.submit(1'000'000, microseconds(100));
  Batch& b = simulator.submit(1'000'000, microseconds(100));
  simulator.run_for(seconds(1));
  simulator.ring.pause(b.queue, simulator.now());
  EXPECT_TRUE(simulator.ring.view(b.queue, simulator.now()).paused);
  const Nanoseconds before = b.received(simulator.now());
  simulator.run_for(seconds(5));
  EXPECT_LE(b.received(simulator.now()) - before, milliseconds(1)) << "a running turn ends";
  simulator.ring.resume(b.queue, simulator.now());
  const Nanoseconds a_before = a.received(simulator.now());
  simulator.run_for(seconds(2));
  EXPECT_NEAR(static_cast<double>((a.received(simulator.now()) - a_before).count()), 1e9, 1e7);
}

TEST(FairRingControlTest, APausedQueueThatIsAloneIsResumed) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.pause(queue, kNow);
  ring.add_jobs(queue, 1, kNow);
  EXPECT_FALSE(ring.has_work());
  ring.resume(queue, kNow);
  EXPECT_TRUE(ring.has_work());
  ring.detach_all();
}

TEST(FairRingControlTest, SlotsCapTheExecutors) {
  RingSimulator simulator({.parallelism = 8}, 8);
  Batch& capped = simulator.submit({.slots = 3}, 10'000, [](auto) { return milliseconds(1); });
  Batch& other = simulator.submit(10'000, milliseconds(1));
  simulator.run_for(seconds(1));
  EXPECT_EQ(capped.most_running, 3U);
  EXPECT_EQ(capped.received(simulator.now()), seconds(3));
  EXPECT_EQ(other.received(simulator.now()), seconds(5)) << "what one may not use, the other gets";
  EXPECT_TRUE(simulator.ring.view(capped.queue, simulator.now()).at_slots);
  simulator.ring.set_slots(capped.queue, 0, simulator.now());
  EXPECT_FALSE(simulator.ring.view(capped.queue, simulator.now()).at_slots);
  simulator.run_for(seconds(1));
  EXPECT_NEAR(static_cast<double>(capped.received(simulator.now()).count()), 7e9, 5e7);
}

TEST(FairRingControlTest, AQueueThatWasAtItsSlotsEarnedNothingMeanwhile) {
  RingSimulator simulator({.parallelism = 4}, 4);
  Batch& capped = simulator.submit({.slots = 1}, 100'000, [](auto) { return milliseconds(1); });
  Batch& other = simulator.submit(100'000, milliseconds(1));
  simulator.run_for(seconds(4));
  const Nanoseconds before = capped.received(simulator.now());
  simulator.ring.set_slots(capped.queue, 0, simulator.now());
  simulator.run_for(seconds(4));
  EXPECT_NEAR(static_cast<double>((capped.received(simulator.now()) - before).count()), 8e9, 8e7);
  EXPECT_EQ(capped.received(simulator.now()) + other.received(simulator.now()), seconds(32));
}

TEST(FairRingControlTest, AThiefJoinsWithinSlots) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {.slots = 2}, nullptr);
  ring.add_jobs(queue, 10, kNow);
  const auto claim = ring.try_claim(kNow);
  const auto thief = ring.try_join(queue, kNow);
  ASSERT_TRUE(thief);
  EXPECT_FALSE(ring.try_join(queue, kNow)) << "two slots are taken";
  EXPECT_FALSE(ring.try_claim(kNow));
  (void)ring.settle(queue, {.charged = *thief, .actual = milliseconds(1)}, kNow);
  EXPECT_TRUE(ring.has_work());
  ring.pause(queue, kNow);
  EXPECT_FALSE(ring.try_join(queue, kNow)) << "paused";
  (void)ring.settle(queue, {.charged = claim->charged, .executed = 1}, kNow);
  ring.detach_all();
}

TEST(FairRingControlTest, BriefClaimsPassLengthyQueuesBy) {
  FairRing ring({.brief_job = milliseconds(5)});
  RingQueue lengthy, brief, unknown;
  ring.attach(lengthy, {.cost_hint = seconds(1)}, nullptr);
  ring.attach(brief, {.cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(lengthy, 100, kNow);
  EXPECT_TRUE(ring.has_work());
  EXPECT_FALSE(ring.has_work(ClaimFilter::brief));
  EXPECT_FALSE(ring.try_claim(kNow, ClaimFilter::brief));
  ring.add_jobs(brief, 100, kNow);
  EXPECT_TRUE(ring.has_work(ClaimFilter::brief));
  std::vector<Claim> claims;
  for (int i = 0; i < 10; ++i) {
    claims.push_back(*ring.try_claim(kNow, ClaimFilter::brief));
    EXPECT_EQ(claims.back().queue, &brief);
  }
  claims.push_back(*ring.try_claim(kNow));
  EXPECT_EQ(claims.back().queue, &lengthy) << "any: the one owed most";
  // Of unknown cost: one may try.
  ring.attach(unknown, {.tenant = "other"}, nullptr);
  ring.add_jobs(unknown, 100, kNow);
  claims.push_back(*ring.try_claim(kNow, ClaimFilter::brief));
  EXPECT_EQ(claims.back().queue, &unknown);
  EXPECT_EQ(ring.try_claim(kNow, ClaimFilter::brief)->queue, &brief);
  (void)ring.settle(unknown, {.charged = claims.back().charged, .actual = seconds(3), .executed = 1}, kNow);
  claims.pop_back();
  for (const Claim& claim : claims) {
    (void)ring.settle(*claim.queue, {.charged = claim.charged, .actual = milliseconds(1), .executed = 1},
                      kNow);
  }
  claims.clear();
  for (int i = 0; i < 10; ++i) {
    claims.push_back(*ring.try_claim(kNow, ClaimFilter::brief));
    EXPECT_EQ(claims.back().queue, &brief) << "the unknown turned out to be lengthy";
  }
  for (const Claim& claim : claims)
    (void)ring.settle(*claim.queue, {.charged = claim.charged, .left = claim.range}, kNow);
  (void)ring.settle(brief, {.executed = 1}, kNow);
  ring.set_brief_job(milliseconds(0), kNow);
  EXPECT_EQ(ring.try_claim(kNow, ClaimFilter::brief)->queue, &lengthy) << "0: all are brief";
  (void)ring.settle(lengthy, {.executed = 1}, kNow);
  ring.detach_all();
}

TEST(FairRingControlTest, PreferringBriefJobsDoesNotDelayNewcomers) {
  FairRing ring({.brief_job = milliseconds(5)});
  RingQueue lengthy, brief, newcomer;
  ring.attach(lengthy, {.cost_hint = milliseconds(10)}, nullptr);
  ring.attach(brief, {.cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(lengthy, 100, kNow);
  ring.add_jobs(brief, 1000, kNow);
  for (int i = 0; i < 200; ++i) {
    const auto claim = ring.try_claim(kNow, ClaimFilter::brief);
    (void)ring.settle(brief, {.charged = claim->charged, .actual = milliseconds(1), .executed = 1}, kNow);
  }
  ring.attach(newcomer, {.cost_hint = milliseconds(10)}, nullptr);
  ring.add_jobs(newcomer, 100, kNow);
  int turns = 0;
  for (int i = 0; i < 10; ++i) {
    const auto claim = ring.try_claim(kNow);
    turns += claim->queue == &newcomer ? 1 : 0;
    (void)ring.settle(*claim->queue, {.charged = claim->charged, .actual = milliseconds(10), .executed = 1},
                      kNow);
  }
  EXPECT_EQ(turns, 5) << "it takes turns with lengthy, and does not wait for all that brief got ahead of it";
  ring.detach_all();
}

TEST(FairRingControlTest, TenantsLeaveWhenTheyHavePaid) {
  FairRing ring({});
  RingQueue steady;
  ring.attach(steady, {.tenant = "steady", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(steady, 1'000'000, kNow);
  RingQueue costly;
  ring.attach(costly, {.tenant = "costly", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(costly, 1, kNow);
  ring.close(costly, kNow);
  const auto run = [&](std::size_t turns, Nanoseconds cost_of_costly) {
    std::size_t served = 0;
    for (std::size_t i = 0; i < turns; ++i) {
      const auto claim = ring.try_claim(kNow);
      const bool is_costly = claim->queue == &costly;
      served += is_costly;
      (void)ring.settle(
          *claim->queue,
          {.charged = claim->charged, .actual = is_costly ? cost_of_costly : milliseconds(1), .executed = 1},
          kNow);
    }
    return served;
  };
  EXPECT_EQ(run(2, milliseconds(50)), 1U);
  // It comes back at once: as if it had not been away, it waits until the other has had as much.
  ring.attach(costly, {.tenant = "costly", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(costly, 1, kNow);
  ring.close(costly, kNow);
  EXPECT_EQ(run(45, milliseconds(50)), 0U);
  EXPECT_EQ(run(10, milliseconds(1)), 1U);
  // It comes back when it has paid.
  run(100, milliseconds(1));
  ring.attach(costly, {.tenant = "costly", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(costly, 1, kNow);
  ring.close(costly, kNow);
  EXPECT_EQ(run(2, milliseconds(1)), 1U);
  ring.detach_all();
}

TEST(FairRingControlTest, ConfiguredTenantWeightsOutliveTheTenant) {
  FairRing ring({});
  ring.set_tenant_weight("gold", 5);
  RingQueue queue;
  for (int i = 0; i < 2; ++i) {
    ring.attach(queue, {.tenant = "gold"}, nullptr);
    EXPECT_EQ(ring.snapshot(0, kNow).tenants.at(0).weight, 5U);
    ring.close(queue, kNow);
    EXPECT_TRUE(ring.snapshot(0, kNow).tenants.empty());
  }
}

TEST(FairRingControlTest, SnapshotAndViewTellWhatIsThere) {
  RingSimulator simulator({.parallelism = 2}, 2);
  simulator.ring.set_tenant_weight("a", 3);
  Batch& a = simulator.submit({.tenant = "a"}, 100'000, [](auto) { return milliseconds(1); });
  simulator.submit({.tenant = "b", .weight = 1}, 50'000, [](auto) { return milliseconds(1); });
  Batch& b2 = simulator.submit({.tenant = "b", .weight = 3}, 70'000, [](auto) { return milliseconds(1); });
  simulator.submit({.tenant = "b"}, 0, [](auto) { return milliseconds(1); }, true);
  simulator.run_for(seconds(20));
  const Nanoseconds now = simulator.now();
  const RingSnapshot snapshot = simulator.ring.snapshot(2, now);
  EXPECT_EQ(snapshot.queued + snapshot.executors + 40'000, 220'000U);
  EXPECT_EQ(snapshot.executors, 2U);
  EXPECT_EQ(snapshot.queues, 4U);
  EXPECT_EQ(snapshot.active_queues, 3U);
  EXPECT_EQ(snapshot.claims_total, 40'002U);
  ASSERT_EQ(snapshot.deepest.size(), 2U);
  EXPECT_EQ(snapshot.deepest[0], simulator.ring.view(a.queue, now).queued);
  EXPECT_GE(snapshot.deepest[0], snapshot.deepest[1]);
  ASSERT_EQ(snapshot.tenants.size(), 2U);
  EXPECT_EQ(snapshot.tenants[0].tenant, "a");
  EXPECT_EQ(snapshot.tenants[0].share, 0.75);
  EXPECT_NEAR(snapshot.tenants[0].received, 0.75, 0.01);
  EXPECT_NEAR(static_cast<double>(snapshot.tenants[0].busy.count()), 30e9, 1e8);
  EXPECT_EQ(snapshot.tenants[1].queues, 3U);
  EXPECT_EQ(snapshot.tenants[1].share, 0.25);
  const QueueView view = simulator.ring.view(b2.queue, now);
  EXPECT_EQ(view.share, 0.25 * 0.75);
  EXPECT_NEAR(view.received, 0.25 * 0.75, 0.01);
  EXPECT_EQ(view.job_cost, milliseconds(1));
  EXPECT_TRUE(view.waiting);
}

TEST(FairRingControlTest, ALongJobCountsAsReceivedWhileItRuns) {
  RingSimulator simulator({.parallelism = 2}, 2);
  Batch& a = simulator.submit({.slots = 1}, 1'000'000, [](auto) { return milliseconds(1); });
  Batch& b = simulator.submit(1, std::chrono::minutes(10));
  simulator.run_for(std::chrono::minutes(2));
  EXPECT_NEAR(simulator.ring.view(a.queue, simulator.now()).received, 0.5, 0.01);
  EXPECT_NEAR(simulator.ring.view(b.queue, simulator.now()).received, 0.5, 0.01);
}

TEST(FairRingControlTest, AheadIsWhoIsServedFirst) {
  FairRing ring({});
  std::vector<RingQueue> queues(10);
  for (RingQueue& queue : queues) {
    ring.attach(queue, {.cost_hint = milliseconds(1)}, nullptr);
    ring.add_jobs(queue, 100, kNow);
  }
  for (int turn = 0; turn < 35; ++turn) {
    std::size_t first = 0;
    std::vector<std::uint64_t> ahead;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      ahead.push_back(ring.view(queues[i], kNow).ahead);
      if (ahead.back() == 0) first = i;
    }
    EXPECT_THAT(ahead, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    const auto claim = ring.try_claim(kNow);
    EXPECT_EQ(claim->queue, &queues[first]);
    (void)ring.settle(*claim->queue, {.charged = claim->charged, .actual = milliseconds(1), .executed = 1},
                      kNow);
  }
  RingQueue other;
  ring.attach(other, {.tenant = "other", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(other, 100, kNow);
  EXPECT_LE(ring.view(other, kNow).ahead, 1U) << "one tenant has ten batches, but one turn";
  ring.detach_all();
}

TEST(FairRingControlTest, AQueueIsSmall) { EXPECT_LE(sizeof(RingQueue), 300U); }

}  // namespace
}  // namespace locksley::test
