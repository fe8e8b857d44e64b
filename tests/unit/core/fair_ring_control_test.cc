// What can be changed of queues while they are queued, and of tenants: pause, slots, brief jobs, weights.
#include <gtest/gtest.h>

#include <vector>

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
  ring.pause(queue, kAnyInstant);
  ring.add_jobs(queue, 1, kAnyInstant);
  EXPECT_FALSE(ring.has_work());
  ring.resume(queue, kAnyInstant);
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

TEST(FairRingControlTest, ThievesOfSubJobsMayExceedTheSlotsAndHoldBackClaims) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {.slots = 2}, nullptr);
  ring.add_jobs(queue, 10, kAnyInstant);
  const auto claim = ring.try_claim(kAnyInstant);
  const Charge first = ring.join(queue, kAnyInstant);
  EXPECT_TRUE(ring.view(queue, kAnyInstant).at_slots);
  EXPECT_FALSE(ring.try_claim(kAnyInstant)) << "two slots are taken";
  const Charge second = ring.join(queue, kAnyInstant);
  EXPECT_EQ(ring.view(queue, kAnyInstant).executors, 3U);
  (void)ring.settle(queue, {.charged = first, .actual = milliseconds(1)}, kAnyInstant);
  EXPECT_FALSE(ring.has_work()) << "two executors are left";
  (void)ring.settle(queue, {.charged = second, .actual = milliseconds(1)}, kAnyInstant);
  EXPECT_TRUE(ring.has_work());
  (void)ring.settle(queue, {.charged = claim->charged, .executed = 1}, kAnyInstant);
  ring.detach_all();
}

TEST(FairRingControlTest, BriefClaimsPassLengthyQueuesBy) {
  FairRing ring({.brief_job = milliseconds(5)});
  RingQueue lengthy, brief, unknown;
  ring.attach(lengthy, {.cost_hint = seconds(1)}, nullptr);
  ring.attach(brief, {.cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(lengthy, 100, kAnyInstant);
  EXPECT_TRUE(ring.has_work());
  EXPECT_FALSE(ring.has_work(ClaimFilter::brief));
  EXPECT_FALSE(ring.try_claim(kAnyInstant, ClaimFilter::brief));
  ring.add_jobs(brief, 100, kAnyInstant);
  EXPECT_TRUE(ring.has_work(ClaimFilter::brief));
  std::vector<Claim> claims;
  for (int i = 0; i < 10; ++i) {
    claims.push_back(*ring.try_claim(kAnyInstant, ClaimFilter::brief));
    EXPECT_EQ(claims.back().queue, &brief);
  }
  claims.push_back(*ring.try_claim(kAnyInstant));
  EXPECT_EQ(claims.back().queue, &lengthy) << "any: the one owed most";
  // Of unknown cost: one may try.
  ring.attach(unknown, {.tenant = "other"}, nullptr);
  ring.add_jobs(unknown, 100, kAnyInstant);
  claims.push_back(*ring.try_claim(kAnyInstant, ClaimFilter::brief));
  EXPECT_EQ(claims.back().queue, &unknown);
  EXPECT_EQ(ring.try_claim(kAnyInstant, ClaimFilter::brief)->queue, &brief);
  (void)ring.settle(unknown, {.charged = claims.back().charged, .actual = seconds(3), .executed = 1},
                    kAnyInstant);
  claims.pop_back();
  for (const Claim& claim : claims) {
    (void)ring.settle(*claim.queue, {.charged = claim.charged, .actual = milliseconds(1), .executed = 1},
                      kAnyInstant);
  }
  claims.clear();
  for (int i = 0; i < 10; ++i) {
    claims.push_back(*ring.try_claim(kAnyInstant, ClaimFilter::brief));
    EXPECT_EQ(claims.back().queue, &brief) << "the unknown turned out to be lengthy";
  }
  for (const Claim& claim : claims)
    (void)ring.settle(*claim.queue, {.charged = claim.charged, .left = claim.range}, kAnyInstant);
  (void)ring.settle(brief, {.executed = 1}, kAnyInstant);
  ring.set_brief_job(milliseconds(0), kAnyInstant);
  EXPECT_EQ(ring.try_claim(kAnyInstant, ClaimFilter::brief)->queue, &lengthy) << "0: all are brief";
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
    const auto claim = ring.try_claim(kAnyInstant, ClaimFilter::brief);
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
  FairRing ring({});
  ring.set_tenant_weight("gold", 5);
  RingQueue queue;
  for (int i = 0; i < 2; ++i) {
    ring.attach(queue, {.tenant = "gold"}, nullptr);
    EXPECT_EQ(ring.snapshot(0, kAnyInstant).tenants.at(0).weight, 5U);
    ring.close(queue, kAnyInstant);
    EXPECT_TRUE(ring.snapshot(0, kAnyInstant).tenants.empty());
  }
}

}  // namespace
}  // namespace locksley::test
