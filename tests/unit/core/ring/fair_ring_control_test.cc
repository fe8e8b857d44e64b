// What can be changed of queues while they are queued, and of tenants: pause, slots, brief jobs,
// weights.
// Length: a short test for each change.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"
#include "tests/support/ring_simulator.h"

namespace locksley::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Batch = RingSimulator::Batch;

constexpr Nanoseconds kAnyInstant{1'000};

TEST(FairRingControlTest, PauseHoldsAtOnceAndResumeEarnsNothing) {
  RingSimulator simulator({}, 1);
  Batch& a = simulator.submit(1'000'000, microseconds(100));
  Batch& b = simulator.submit(1'000'000, microseconds(100));
  simulator.run_for(seconds(1));
  simulator.ring.pause(b.queue, simulator.now());
  EXPECT_TRUE(simulator.ring.view().queue(b.queue, simulator.now()).paused);
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
  ring.pause(queue, kAnyInstant);
  ring.add_jobs(queue, 1, kAnyInstant);
  EXPECT_FALSE(ring.hints().has_work());
  ring.resume(queue, kAnyInstant);
  EXPECT_TRUE(ring.hints().has_work());
  ring.detach_all();
}

// One job of the queue runs, and breaks its executor. False: no job of it can be claimed.
bool break_executor(FairRing& ring, RingQueue& queue, Nanoseconds now, bool had_ended_well = false) {
  const auto claim = ring.try_claim(now, ClaimFilter::kAny, 1);
  if (!claim || claim->queue != &queue) return false;
  (void)ring.settle(queue,
                    {.charged = claim->charged,
                     .actual = milliseconds(1),
                     .executed = 1,
                     .has_ended_well = had_ended_well,
                     .backoff = Backoff::kBroken},
                    now);
  return true;
}

TEST(FairRingControlTest, AQueueThatBreaksItsExecutorsWaitsLongerEachTime) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 100, kAnyInstant);
  Nanoseconds now = seconds(1);
  for (const auto wait : {milliseconds(100), milliseconds(200), milliseconds(400), milliseconds(800),
                          milliseconds(1600), milliseconds(3200), milliseconds(5000), milliseconds(5000)}) {
    ASSERT_TRUE(break_executor(ring, queue, now));
    EXPECT_EQ(ring.view().queue(queue, now).backoff, Backoff::kBroken);
    EXPECT_FALSE(ring.hints().has_work());
    EXPECT_EQ(ring.end_waits(now + wait - Nanoseconds(1)), now + wait);
    EXPECT_FALSE(ring.hints().has_work()) << "a nanosecond too early";
    now += wait;
    EXPECT_EQ(ring.end_waits(now), std::nullopt);
    EXPECT_TRUE(ring.hints().has_work());
    EXPECT_EQ(ring.view().queue(queue, now).backoff, Backoff::kNone);
  }
  ASSERT_TRUE(break_executor(ring, queue, now, /*had_ended_well=*/true));
  EXPECT_EQ(ring.end_waits(now), now + milliseconds(100)) << "a job has ended well before";
  ring.detach_all();
}

TEST(FairRingControlTest, OnlyTheQueueThatBreaksItsExecutorsWaits) {
  FairRing ring({});
  RingQueue bad;
  RingQueue good;
  ring.attach(bad, {}, nullptr);
  ring.attach(good, {}, nullptr);
  ring.add_jobs(bad, 10, kAnyInstant);
  ASSERT_TRUE(break_executor(ring, bad, seconds(1)));
  ring.add_jobs(good, 10, seconds(1));
  for (int i = 0; i < 10; ++i) {
    const auto claim = ring.try_claim(seconds(1), ClaimFilter::kAny, 1);
    ASSERT_TRUE(claim);
    EXPECT_EQ(claim->queue, &good);
    (void)ring.settle(good, {.charged = claim->charged, .actual = milliseconds(9), .executed = 1},
                      seconds(1));
  }
  EXPECT_FALSE(ring.hints().has_work());
  ring.detach_all();
}

TEST(FairRingControlTest, ABackoffEndsOnceForTurnsThatRanSideBySide) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 10, kAnyInstant);
  const auto first = ring.try_claim(seconds(1), ClaimFilter::kAny, 1);
  const auto second = ring.try_claim(seconds(1), ClaimFilter::kAny, 1);
  for (const auto& claim : {first, second}) {
    (void)ring.settle(queue, {.charged = claim->charged, .executed = 1, .backoff = Backoff::kBroken},
                      seconds(1));
  }
  EXPECT_EQ(ring.end_waits(seconds(1)), seconds(1) + milliseconds(100));
  ASSERT_FALSE(ring.end_waits(seconds(2)));
  ASSERT_TRUE(break_executor(ring, queue, seconds(2)));
  EXPECT_EQ(ring.end_waits(seconds(2)), seconds(2) + milliseconds(200)) << "they counted once";
  ring.detach_all();
}

// However often: the executors are in order, and the store may be back at any time.
TEST(FairRingControlTest, AQueueWithoutPayloadsWaitsForTheSameTimeEachTime) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 10, kAnyInstant);
  Nanoseconds now = seconds(1);
  for (int i = 0; i < 3; ++i) {
    const auto claim = ring.try_claim(now, ClaimFilter::kAny, 1);
    ASSERT_TRUE(claim);
    const Settlement settlement{
        .charged = claim->charged, .left = claim->range, .backoff = Backoff::kNoPayloads};
    (void)ring.settle(queue, settlement, now);
    EXPECT_EQ(ring.view().queue(queue, now).backoff, Backoff::kNoPayloads);
    EXPECT_FALSE(ring.hints().has_work());
    now += milliseconds(500);
    EXPECT_EQ(ring.end_waits(now - Nanoseconds(1)), now);
    EXPECT_EQ(ring.end_waits(now), std::nullopt);
  }
  ASSERT_TRUE(break_executor(ring, queue, now));
  EXPECT_EQ(ring.end_waits(now), now + milliseconds(100)) << "they do not count as breaks";
  ring.detach_all();
}

TEST(FairRingControlTest, AQueueWhosePayloadsArriveIsServedAtOnce) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 10, kAnyInstant);
  const auto find_none = [&](Nanoseconds began, Nanoseconds until) {
    const auto claim = ring.try_claim(began, ClaimFilter::kAny, 1);
    (void)ring.settle(
        queue, {.charged = claim->charged, .left = claim->range, .backoff = Backoff::kNoPayloads}, until);
  };
  find_none(seconds(1), seconds(1));
  ASSERT_FALSE(ring.hints().has_work());
  ring.payloads_arrived(queue, seconds(1) + milliseconds(10));
  EXPECT_TRUE(ring.hints().has_work());
  EXPECT_EQ(ring.view().queue(queue, seconds(1)).backoff, Backoff::kNone);
  EXPECT_EQ(ring.end_waits(seconds(2)), std::nullopt);

  // They arrived before this turn, which has not found what it looked for.
  find_none(seconds(2), seconds(2));
  EXPECT_FALSE(ring.hints().has_work());
  ring.payloads_arrived(queue, seconds(3));

  // They arrive between the look and the end of the turn.
  const auto claim = ring.try_claim(seconds(4), ClaimFilter::kAny, 1);
  ring.payloads_arrived(queue, seconds(5));
  (void)ring.settle(queue, {.charged = claim->charged, .left = claim->range, .backoff = Backoff::kNoPayloads},
                    seconds(6));
  EXPECT_TRUE(ring.hints().has_work());

  // A back-off for another reason goes on.
  ASSERT_TRUE(break_executor(ring, queue, seconds(7)));
  ring.payloads_arrived(queue, seconds(7));
  EXPECT_FALSE(ring.hints().has_work());
  ring.detach_all();
}

TEST(FairRingControlTest, AQueueThatBacksOffIsCancelledOrTakenOut) {
  FairRing ring({});
  RingQueue cancelled;
  RingQueue taken;
  for (RingQueue* queue : {&cancelled, &taken}) {
    ring.attach(*queue, {}, nullptr);
    ring.add_jobs(*queue, 3, kAnyInstant);
    ASSERT_TRUE(break_executor(ring, *queue, seconds(1)));
  }
  EXPECT_EQ(ring.cancel(cancelled, seconds(1)).size(), 1U);
  EXPECT_FALSE(ring.view().queue(cancelled, seconds(1)).attached);
  const auto out = ring.take_out(taken, seconds(1));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->ranges.size(), 1U);
  EXPECT_EQ(ring.end_waits(seconds(1)), std::nullopt) << "the ring has forgotten both";
  FairRing other({});
  other.attach(taken, {}, nullptr);
  other.queue_again(taken, out->ranges, seconds(1));
  ASSERT_TRUE(break_executor(other, taken, seconds(2)));
  EXPECT_EQ(other.end_waits(seconds(2)), seconds(2) + milliseconds(100)) << "the first time in this ring";
  other.detach_all();
}

TEST(FairRingControlTest, ACancelledQueueWaitsForNothingThoughATurnOfItStillRuns) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 10, kAnyInstant);
  const auto running = ring.try_claim(seconds(1), ClaimFilter::kAny, 1);
  ASSERT_TRUE(break_executor(ring, queue, seconds(1)));
  (void)ring.cancel(queue, seconds(1));
  EXPECT_EQ(ring.view().queue(queue, seconds(1)).backoff, Backoff::kNone);
  EXPECT_EQ(ring.end_waits(seconds(1)), std::nullopt);
  (void)ring.settle(queue, {.charged = running->charged, .executed = 1}, seconds(2));
  EXPECT_FALSE(ring.view().queue(queue, seconds(2)).attached);
}

TEST(FairRingControlTest, VeryManyBackoffsEndInSeveralCalls) {
  constexpr std::size_t kMany = 1000;
  FairRing ring({});
  std::vector<RingQueue> queues(kMany);
  const auto break_all = [&](Nanoseconds now) {
    for (std::size_t i = 0; i < kMany; ++i) {
      const auto claim = ring.try_claim(now, ClaimFilter::kAny, 1);
      ASSERT_TRUE(claim);
      (void)ring.settle(*claim->queue,
                        {.charged = claim->charged, .executed = 1, .backoff = Backoff::kBroken}, now);
    }
  };
  const auto waiting = [&](Nanoseconds now) {
    return std::ranges::count_if(queues, [&](const RingQueue& queue) {
      return ring.view().queue(queue, now).backoff != Backoff::kNone;
    });
  };
  for (RingQueue& queue : queues) {
    ring.attach(queue, {}, nullptr);
    ring.add_jobs(queue, 10, kAnyInstant);
  }
  break_all(seconds(1));
  std::size_t calls = 1;
  for (auto next = ring.end_waits(seconds(2)); next; next = ring.end_waits(seconds(2)), ++calls)
    ASSERT_LE(*next, seconds(2)) << "it is over: call again";
  EXPECT_EQ(waiting(seconds(2)), 0);
  EXPECT_GT(calls, 10U);
  break_all(seconds(2));
  for (calls = 1; !ring.end_backoffs(seconds(2)); ++calls) {
  }
  EXPECT_EQ(waiting(seconds(2)), 0);
  EXPECT_GT(calls, 10U);
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
  EXPECT_TRUE(simulator.ring.view().queue(capped.queue, simulator.now()).at_slots);
  simulator.ring.set_slots(capped.queue, 0, simulator.now());
  EXPECT_FALSE(simulator.ring.view().queue(capped.queue, simulator.now()).at_slots);
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

TEST(FairRingControlTest, ThievesOfSubJobsMayExceedTheSlotsAndHoldBackClaims) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {.slots = 2}, nullptr);
  ring.add_jobs(queue, 10, kAnyInstant);
  const auto claim = ring.try_claim(kAnyInstant);
  const Charge first = ring.join(queue, kAnyInstant);
  EXPECT_TRUE(ring.view().queue(queue, kAnyInstant).at_slots);
  EXPECT_FALSE(ring.try_claim(kAnyInstant)) << "two slots are taken";
  const Charge second = ring.join(queue, kAnyInstant);
  EXPECT_EQ(ring.view().queue(queue, kAnyInstant).executors, 3U);
  (void)ring.settle(queue, {.charged = first, .actual = milliseconds(1)}, kAnyInstant);
  EXPECT_FALSE(ring.hints().has_work()) << "two executors are left";
  (void)ring.settle(queue, {.charged = second, .actual = milliseconds(1)}, kAnyInstant);
  EXPECT_TRUE(ring.hints().has_work());
  (void)ring.settle(queue, {.charged = claim->charged, .executed = 1}, kAnyInstant);
  ring.detach_all();
}

TEST(FairRingControlTest, BriefClaimsPassLengthyQueuesBy) {
  FairRing ring({.brief_job = milliseconds(5)});
  RingQueue lengthy, brief, unknown;
  ring.attach(lengthy, {.cost_hint = seconds(1)}, nullptr);
  ring.attach(brief, {.cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(lengthy, 100, kAnyInstant);
  EXPECT_TRUE(ring.hints().has_work());
  EXPECT_FALSE(ring.hints().has_work(ClaimFilter::kBrief));
  EXPECT_FALSE(ring.try_claim(kAnyInstant, ClaimFilter::kBrief));
  ring.add_jobs(brief, 100, kAnyInstant);
  EXPECT_TRUE(ring.hints().has_work(ClaimFilter::kBrief));
  std::vector<Claim> claims;
  for (int i = 0; i < 10; ++i) {
    claims.push_back(*ring.try_claim(kAnyInstant, ClaimFilter::kBrief));
    EXPECT_EQ(claims.back().queue, &brief);
  }
  claims.push_back(*ring.try_claim(kAnyInstant));
  EXPECT_EQ(claims.back().queue, &lengthy) << "any: the one owed most";
  // Of unknown cost: one may try.
  ring.attach(unknown, {.tenant = "other"}, nullptr);
  ring.add_jobs(unknown, 100, kAnyInstant);
  claims.push_back(*ring.try_claim(kAnyInstant, ClaimFilter::kBrief));
  EXPECT_EQ(claims.back().queue, &unknown);
  EXPECT_EQ(ring.try_claim(kAnyInstant, ClaimFilter::kBrief)->queue, &brief);
  (void)ring.settle(unknown, {.charged = claims.back().charged, .actual = seconds(3), .executed = 1},
                    kAnyInstant);
  claims.pop_back();
  for (const Claim& claim : claims) {
    (void)ring.settle(*claim.queue, {.charged = claim.charged, .actual = milliseconds(1), .executed = 1},
                      kAnyInstant);
  }
  claims.clear();
  for (int i = 0; i < 10; ++i) {
    claims.push_back(*ring.try_claim(kAnyInstant, ClaimFilter::kBrief));
    EXPECT_EQ(claims.back().queue, &brief) << "the unknown turned out to be lengthy";
  }
  for (const Claim& claim : claims)
    (void)ring.settle(*claim.queue, {.charged = claim.charged, .left = claim.range}, kAnyInstant);
  (void)ring.settle(brief, {.executed = 1}, kAnyInstant);
  ring.set_brief_job(milliseconds(0), kAnyInstant);
  EXPECT_EQ(ring.try_claim(kAnyInstant, ClaimFilter::kBrief)->queue, &lengthy) << "0: all are brief";
  (void)ring.settle(lengthy, {.executed = 1}, kAnyInstant);
  ring.detach_all();
}

TEST(FairRingControlTest, PreferringBriefJobsDoesNotDelayNewcomers) {
  FairRing ring({.brief_job = milliseconds(5)});
  RingQueue lengthy, brief, newcomer;
  ring.attach(lengthy, {.cost_hint = milliseconds(10)}, nullptr);
  ring.attach(brief, {.cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(lengthy, 100, kAnyInstant);
  ring.add_jobs(brief, 1000, kAnyInstant);
  for (int i = 0; i < 200; ++i) {
    const auto claim = ring.try_claim(kAnyInstant, ClaimFilter::kBrief);
    (void)ring.settle(brief, {.charged = claim->charged, .actual = milliseconds(1), .executed = 1},
                      kAnyInstant);
  }
  ring.attach(newcomer, {.cost_hint = milliseconds(10)}, nullptr);
  ring.add_jobs(newcomer, 100, kAnyInstant);
  int turns = 0;
  for (int i = 0; i < 10; ++i) {
    const auto claim = ring.try_claim(kAnyInstant);
    turns += claim->queue == &newcomer ? 1 : 0;
    (void)ring.settle(*claim->queue, {.charged = claim->charged, .actual = milliseconds(10), .executed = 1},
                      kAnyInstant);
  }
  EXPECT_EQ(turns, 5) << "it takes turns with lengthy, and does not wait for all that brief got ahead of it";
  ring.detach_all();
}

TEST(FairRingControlTest, TenantsLeaveWhenTheyHavePaid) {
  FairRing ring({});
  RingQueue steady;
  ring.attach(steady, {.tenant = "steady", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(steady, 1'000'000, kAnyInstant);
  RingQueue costly;
  ring.attach(costly, {.tenant = "costly", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(costly, 1, kAnyInstant);
  ring.close(costly, kAnyInstant);
  const auto run = [&](std::size_t turns, Nanoseconds cost_of_costly) {
    std::size_t served = 0;
    for (std::size_t i = 0; i < turns; ++i) {
      const auto claim = ring.try_claim(kAnyInstant);
      const bool is_costly = claim->queue == &costly;
      served += is_costly;
      (void)ring.settle(
          *claim->queue,
          {.charged = claim->charged, .actual = is_costly ? cost_of_costly : milliseconds(1), .executed = 1},
          kAnyInstant);
    }
    return served;
  };
  EXPECT_EQ(run(2, milliseconds(50)), 1U);
  // It comes back at once: as if it had not been away, it waits until the other has had as much.
  ring.attach(costly, {.tenant = "costly", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(costly, 1, kAnyInstant);
  ring.close(costly, kAnyInstant);
  EXPECT_EQ(run(45, milliseconds(50)), 0U);
  EXPECT_EQ(run(10, milliseconds(1)), 1U);
  // It comes back when it has paid.
  run(100, milliseconds(1));
  ring.attach(costly, {.tenant = "costly", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(costly, 1, kAnyInstant);
  ring.close(costly, kAnyInstant);
  EXPECT_EQ(run(2, milliseconds(1)), 1U);
  ring.detach_all();
}

TEST(FairRingControlTest, ConfiguredTenantWeightsOutliveTheTenant) {
  FairRing ring({.most_idle_tenants = 0});
  ring.groups().set_tenant_weight("gold", 5);
  RingQueue queue;
  for (int i = 0; i < 2; ++i) {
    ring.attach(queue, {.tenant = "gold"}, nullptr);
    EXPECT_EQ(ring.view().snapshot(0, kAnyInstant).tenants.at(0).weight, 5U);
    ring.close(queue, kAnyInstant);
    EXPECT_TRUE(ring.view().snapshot(0, kAnyInstant).tenants.empty());
  }
}

// Users come and go with the configuration.
TEST(FairRingControlTest, LimitsThatAreSetBackTakeNoMemory) {
  FairRing ring(FairRing::Options{});
  const auto set_all = [&](const GroupLimits& limits_of_each) {
    for (int i = 0; i < 10'000; ++i)
      ring.groups().set_tenant_limits("user number " + std::to_string(i), limits_of_each, kAnyInstant);
  };
  const std::size_t before = mallinfo2().uordblks;
  set_all({.weight = 2});
  set_all({});
  EXPECT_LT(mallinfo2().uordblks, before + 500'000)
      << "the buckets of the table are left; a name takes 100 bytes";
}

}  // namespace
}  // namespace locksley::test
