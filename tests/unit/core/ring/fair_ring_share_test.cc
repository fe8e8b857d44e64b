// Who gets how much: simulated workers on a simulated clock.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
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

double ratio(Nanoseconds a, Nanoseconds b) {
  return static_cast<double>(a.count()) / static_cast<double>(b.count());
}

TEST(FairRingShareTest, TimeFollowsWeightsWhateverTheJobsCost) {
  for (const std::uint32_t workers : {1U, 2U, 7U}) {
    RingSimulator simulator({.parallelism = workers}, workers);
    Batch& cheap = simulator.submit(100'000'000, microseconds(10), 1);
    Batch& costly = simulator.submit(1'000'000, milliseconds(10), 3);
    simulator.run_for(seconds(5));
    const Nanoseconds now = simulator.now();
    EXPECT_NEAR(ratio(costly.received(now), cheap.received(now)), 3, 0.06) << workers << " workers";
    EXPECT_EQ(cheap.received(now) + costly.received(now), seconds(5) * workers) << "no worker rested";
  }
}

TEST(FairRingShareTest, CostsFromTenMicrosecondsToAHundredMilliseconds) {
  RingSimulator simulator({.parallelism = 2}, 2);
  std::vector<Batch*> batches;
  for (const Nanoseconds cost : {Nanoseconds(microseconds(10)), Nanoseconds(microseconds(500)),
                                 Nanoseconds(milliseconds(4)), Nanoseconds(milliseconds(100))}) {
    batches.push_back(&simulator.submit(100'000'000, cost));
  }
  simulator.run_for(seconds(60));
  for (Batch* batch : batches) {
    EXPECT_NEAR(ratio(batch->received(simulator.now()), seconds(30)), 1, 0.02);
  }
}

TEST(FairRingShareTest, NoServiceIsLostToRounding) {
  // Turns of 1.5 us and weights that divide nothing: of each turn's quotient (1.504… for b), a
  // third is the remainder.
  RingSimulator simulator({.quantum = microseconds(1)}, 1);
  Batch& a = simulator.submit(10'000'000, Nanoseconds(1500), 7);
  Batch& b = simulator.submit(10'000'000, Nanoseconds(1500), 997);
  simulator.run_for(milliseconds(300));
  EXPECT_NEAR(ratio(b.settled, a.settled), 997.0 / 7, 0.5);
}

TEST(FairRingShareTest, ALateJoinerStartsWithinTheRunningTurn) {
  for (const std::uint32_t workers : {1U, 4U}) {
    RingSimulator simulator({.parallelism = workers}, workers);
    simulator.submit(1'000'000, microseconds(20));
    simulator.run_for(milliseconds(1234));
    const Nanoseconds joined = simulator.now();
    Batch& late = simulator.submit(10, microseconds(20));
    simulator.run_for(seconds(1));
    ASSERT_TRUE(late.first_start);
    EXPECT_LE(*late.first_start - joined, milliseconds(1) + microseconds(20)) << workers << " workers";
  }
}

TEST(FairRingShareTest, TenJobsBehindAMillionAreDoneWithinAFewQuanta) {
  RingSimulator simulator({.parallelism = 2}, 2);
  simulator.submit(1'000'000, microseconds(50));
  for (int round = 0; round < 100; ++round) {
    simulator.run_for(microseconds(9'973));
    const Nanoseconds joined = simulator.now();
    Batch& small = simulator.submit(10, microseconds(50));
    simulator.run_for(milliseconds(20));
    ASSERT_EQ(small.ended, 10U);
    EXPECT_LE(*small.last_end - joined, milliseconds(4)) << "round " << round;
  }
}

TEST(FairRingShareTest, BeingIdleEarnsNothing) {
  RingSimulator simulator({}, 1);
  Batch& steady = simulator.submit(10'000'000, microseconds(100));
  Batch& away = simulator.submit({}, 1, [](auto) { return microseconds(100); }, true);
  simulator.run_for(seconds(10));
  ASSERT_EQ(away.ended, 1U);
  const Nanoseconds before = steady.received(simulator.now());
  simulator.add(away, 1'000'000);
  simulator.run_for(seconds(1));
  EXPECT_NEAR(ratio(steady.received(simulator.now()) - before, milliseconds(500)), 1, 0.01);
}

TEST(FairRingShareTest, EmptyingAndRefillingEarnsNothing) {
  // Refills as soon as it is empty, while its last job still runs or right after; estimates are
  // wrong on purpose.
  RingSimulator simulator({.parallelism = 2}, 2);
  Batch& steady = simulator.submit(10'000'000, microseconds(100));
  Batch& greedy = simulator.submit(
      {.cost_hint = milliseconds(1)}, 1,
      [](std::uint64_t i) { return i % 3 == 0 ? microseconds(900) : microseconds(5); }, true);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    simulator.run_for(microseconds(37));
    if (simulator.ring.view().queue(greedy.queue, simulator.now()).queued == 0)
      simulator.add(greedy, 1 + i % 3);
  }
  const Nanoseconds now = simulator.now();
  EXPECT_LE(greedy.received(now), steady.received(now) + milliseconds(4));
}

// A turn that is charged far too much runs while its queue is dry, falls behind the virtual time,
// and refills. What is taken back when the turn settles must not bring the queue below where it
// came in.
TEST(FairRingShareTest, AnOverestimateTakenBackAfterARefillEarnsNothing) {
  FairRing ring({.parallelism = 2});
  RingQueue steady, greedy;
  ring.attach(steady, {.cost_hint = milliseconds(1)}, nullptr);
  ring.attach(greedy, {.cost_hint = milliseconds(100)}, nullptr);
  const Nanoseconds now{0};
  ring.add_jobs(greedy, 1, now);
  const auto overestimated = ring.try_claim(now);
  ring.add_jobs(steady, 1'000'000, now);
  // Turns of 1 ms each; how many of them went to greedy.
  const auto turns_of_greedy = [&](int turns) {
    int count = 0;
    for (int i = 0; i < turns; ++i) {
      const auto claim = ring.try_claim(now);
      count += claim->queue == &greedy ? 1 : 0;
      (void)ring.settle(*claim->queue, {.charged = claim->charged, .actual = milliseconds(1), .executed = 1},
                        now);
    }
    return count;
  };
  EXPECT_EQ(turns_of_greedy(200), 0);
  ring.add_jobs(greedy, 1'000'000, now);
  (void)ring.settle(greedy, {.charged = overestimated->charged, .actual = microseconds(1), .executed = 1},
                    now);
  EXPECT_NEAR(turns_of_greedy(50), 25, 1);
  ring.detach_all();
}

// The same, but it refills while it is still ahead of the virtual time: then it gets back what it
// was overcharged, down to there.
TEST(FairRingShareTest, AnOverestimateTakenBackAfterARefillIsNotLost) {
  FairRing ring({.parallelism = 2});
  RingQueue steady, streamed;
  ring.attach(steady, {.cost_hint = milliseconds(1)}, nullptr);
  ring.attach(streamed, {.cost_hint = milliseconds(100)}, nullptr);
  const Nanoseconds now{0};
  ring.add_jobs(streamed, 1, now);
  const auto overestimated = ring.try_claim(now);
  ring.add_jobs(steady, 1'000'000, now);
  ring.add_jobs(streamed, 1'000'000, now);
  (void)ring.settle(streamed, {.charged = overestimated->charged, .actual = microseconds(1), .executed = 1},
                    now);
  EXPECT_EQ(ring.view().queue(streamed, now).ahead, 1U);
  const auto first = ring.try_claim(now);
  EXPECT_EQ(first->queue, &steady);
  const auto second = ring.try_claim(now);
  EXPECT_EQ(second->queue, &streamed) << "not a hundred turns later";
  (void)ring.settle(steady, {.charged = first->charged, .executed = 1}, now);
  (void)ring.settle(streamed, {.charged = second->charged, .executed = 1}, now);
  ring.detach_all();
}

TEST(FairRingShareTest, TenantsShareEquallyHoweverManyBatchesTheyHave) {
  RingSimulator simulator({.parallelism = 2}, 2);
  std::vector<Batch*> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(&simulator.submit({.tenant = "many"}, 1'000'000, [](auto) { return microseconds(50); }));
  }
  Batch& one = simulator.submit({.tenant = "one"}, 1'000'000, [](auto) { return microseconds(300); });
  simulator.run_for(seconds(10));
  Nanoseconds sum{};
  for (Batch* batch : many) sum += batch->received(simulator.now());
  EXPECT_NEAR(ratio(sum, one.received(simulator.now())), 1, 0.01);
}

TEST(FairRingShareTest, TenantWeightsAndThenQueueWeights) {
  RingSimulator simulator({}, 1);
  simulator.ring.groups().set_tenant_weight("a", 3);
  Batch& a1 =
      simulator.submit({.tenant = "a", .weight = 1}, 1'000'000, [](auto) { return microseconds(50); });
  Batch& a2 =
      simulator.submit({.tenant = "a", .weight = 2}, 1'000'000, [](auto) { return microseconds(500); });
  Batch& b =
      simulator.submit({.tenant = "b", .weight = 500}, 1'000'000, [](auto) { return microseconds(70); });
  simulator.run_for(seconds(12));
  EXPECT_NEAR(ratio(a1.settled, seconds(3)), 1, 0.01);
  EXPECT_NEAR(ratio(a2.settled, seconds(6)), 1, 0.01);
  EXPECT_NEAR(ratio(b.settled, seconds(3)), 1, 0.01);
}

TEST(FairRingShareTest, BatchesOfFewLongJobsOneAfterAnotherGetTheShareOfOne) {
  // Each of them is new, and what its first jobs cost is not measured.
  RingSimulator simulator({.parallelism = 2}, 2);
  Batch& steady = simulator.submit(kEndless, milliseconds(10));
  Batch* batch = &simulator.submit(2, milliseconds(1500));
  std::function<void()> look_again = [&] {
    if (batch->ended == 2) batch = &simulator.submit(2, milliseconds(1500));
    simulator.at(simulator.now() + milliseconds(1), look_again);
  };
  look_again();
  simulator.run_for(seconds(30));
  EXPECT_GT(ratio(steady.received(simulator.now()), seconds(60)), 0.4);
}

TEST(FairRingShareTest, WeightsActOnWhatIsQueued) {
  RingSimulator simulator({}, 1);
  Batch& a = simulator.submit(10'000'000, microseconds(100));
  Batch& b = simulator.submit(10'000'000, microseconds(100));
  simulator.run_for(seconds(2));
  simulator.ring.set_weight(b.queue, 4);
  const Nanoseconds before = b.settled;
  simulator.run_for(seconds(10));
  EXPECT_NEAR(ratio(b.settled - before, seconds(8)), 1, 0.01);
  EXPECT_NEAR(ratio(a.settled, seconds(3)), 1, 0.01);
}

TEST(FairRingShareTest, AHundredThousandBatchesGetEqualTime) {
  RingSimulator simulator({.parallelism = 4}, 4);
  constexpr int kBatches = 100'000;
  std::vector<Batch*> batches;
  for (int i = 0; i < kBatches; ++i)
    batches.push_back(&simulator.submit(1'000'000, microseconds(100 + i % 7)));
  simulator.run_for(milliseconds(1) * kBatches * 4);
  double sum = 0, squares = 0;
  for (Batch* batch : batches) {
    const auto received = static_cast<double>(batch->received(simulator.now()).count());
    sum += received;
    squares += received * received;
  }
  EXPECT_GE(sum * sum / (kBatches * squares), 0.999) << "Jain's index";
}

TEST(FairRingShareTest, ShareOfJobsCountsJobs) {
  RingSimulator simulator({.share = Share::kJobs}, 1);
  Batch& cheap = simulator.submit(1'000'000, microseconds(100));
  Batch& costly = simulator.submit(1'000'000, microseconds(2000), 2);
  simulator.run_for(seconds(10));
  EXPECT_NEAR(static_cast<double>(costly.ended) / static_cast<double>(cheap.ended), 2, 0.02);
}

TEST(FairRingShareTest, ShareOfJobsMakesTurnsOfSubJobsCostSomething) {
  FairRing ring({.share = Share::kJobs});
  RingQueue spawner, other;
  constexpr Nanoseconds kStart{0};
  ring.attach(spawner, {.cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(spawner, 1000, kStart);
  const auto job = ring.try_claim(kStart);
  ring.attach(other, {.cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(other, 1000, kStart);
  for (int i = 0; i < 40; ++i) {
    const Charge thief = ring.join(spawner, kStart);
    (void)ring.settle(spawner, {.charged = thief, .actual = milliseconds(1)}, kStart);
  }
  (void)ring.settle(spawner, {.charged = job->charged, .actual = milliseconds(1), .executed = 1}, kStart);
  for (int i = 0; i < 40; ++i) {
    const auto claim = ring.try_claim(kStart);
    EXPECT_EQ(claim->queue, &other) << "the other has not had " << i << " of 40 turns back";
    (void)ring.settle(*claim->queue,
                      {.charged = claim->charged, .actual = milliseconds(1), .executed = claim->range.size()},
                      kStart);
  }
  ring.detach_all();
}

// A batch whose sub-jobs keep an idle machine busy for a minute owes nothing to one that comes
// then.
TEST(FairRingShareTest, ThievesWhileNobodyWaitsAreNotHeldAgainstTheirBatch) {
  for (const bool same_tenant : {true, false}) {
    FairRing ring({.parallelism = 2});
    RingQueue spawner, other;
    Nanoseconds now{0};
    ring.attach(spawner, {.tenant = "a", .cost_hint = milliseconds(1)}, nullptr);
    ring.add_jobs(spawner, 1, now);
    const auto job = ring.try_claim(now);
    for (int i = 0; i < 60'000; ++i) {
      const Charge thief = ring.join(spawner, now);
      now += milliseconds(1);
      (void)ring.settle(spawner, {.charged = thief, .actual = milliseconds(1)}, now);
    }
    ring.attach(other, {.tenant = same_tenant ? "a" : "b", .cost_hint = milliseconds(1)}, nullptr);
    ring.add_jobs(other, 1000, now);
    ring.add_jobs(spawner, 1000, now);
    int turns = 0;
    for (int i = 0; i < 100; ++i) {
      const auto claim = ring.try_claim(now);
      turns += claim->queue == &spawner ? 1 : 0;
      now += milliseconds(1);
      (void)ring.settle(
          *claim->queue,
          {.charged = claim->charged, .actual = milliseconds(1), .executed = claim->range.size()}, now);
    }
    EXPECT_NEAR(turns, 50, 2) << (same_tenant ? "same tenant" : "two tenants");
    (void)ring.settle(spawner, {.charged = job->charged, .executed = 1}, now);
    ring.detach_all();
  }
}

TEST(FairRingShareTest, ACostThatJumpsAThousandfoldIsSettledRight) {
  for (const bool up : {true, false}) {
    RingSimulator simulator({.parallelism = 2}, 2);
    Batch& steady = simulator.submit(100'000'000, microseconds(300));
    Batch& jumpy = simulator.submit({}, 100'000'000, [up](std::uint64_t i) {
      return (i < (up ? 100'000U : 300U)) == up ? microseconds(10) : microseconds(10'000);
    });
    for (int i = 0; i < 20; ++i) {
      simulator.run_for(milliseconds(500));
      const Nanoseconds now = simulator.now();
      const Nanoseconds difference = steady.received(now) - jumpy.received(now);
      EXPECT_LE(std::chrono::abs(difference), milliseconds(45)) << "after " << i << " steps";
    }
  }
}

TEST(FairRingShareTest, UnitsOfSubJobTimeBelongToTheJobThatEnds) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 10, Nanoseconds{0});
  const auto claim = ring.try_claim(Nanoseconds{0});
  const Charge thief = ring.join(queue, Nanoseconds{0});
  (void)ring.settle(queue, {.charged = thief, .actual = milliseconds(30)}, Nanoseconds{0});
  EXPECT_EQ(ring.view().queue(queue, Nanoseconds{0}).job_cost, Nanoseconds{0});
  (void)ring.settle(queue, {.charged = claim->charged, .actual = milliseconds(12), .executed = 1},
                    Nanoseconds{0});
  EXPECT_EQ(ring.view().queue(queue, Nanoseconds{0}).job_cost, milliseconds(42));
  ring.detach_all();
}

TEST(FairRingShareTest, AfterABusyPeriodNobodyIsAhead) {
  for (const bool same_tenant : {true, false}) {
    RingSimulator simulator({}, 1);
    const auto cost = [](std::uint64_t i) {
      return i == 0 ? Nanoseconds(seconds(600)) : Nanoseconds(milliseconds(10));
    };
    Batch& alone = simulator.submit({.tenant = "a"}, 1, cost, true);
    simulator.run();
    ASSERT_EQ(simulator.now(), seconds(600));
    // It used an idle machine; that is nobody's loss.
    Batch& other =
        simulator.submit({.tenant = same_tenant ? "a" : "b"}, 1000, [](auto) { return milliseconds(10); });
    simulator.add(alone, 1000);
    simulator.run_for(seconds(10));
    EXPECT_NEAR(ratio(alone.received(simulator.now()) - seconds(600), other.received(simulator.now())), 1,
                0.01);
  }
}

TEST(FairRingShareTest, ClocksThatAreSetBackChangeNothing) {
  // The same run with a clock that is set back every 5 ms of virtual time and one that never is.
  std::vector<std::uint64_t> ended[2];
  for (const bool often : {false, true}) {
    FairRing::Options options{.parallelism = 3};
    if (often) options.set_back_at = 5'000'000;
    RingSimulator simulator(options, 3);
    std::vector<Batch*> batches;
    for (std::uint32_t i = 0; i < 9; ++i) {
      batches.push_back(&simulator.submit(
          {.tenant = std::to_string(i % 2), .weight = 1 + i % 4}, 1'000,
          [i](std::uint64_t job) { return microseconds(10 + 400 * i + (job * 7919) % 300); }, true));
    }
    for (int round = 0; round < 300; ++round) {
      simulator.run_for(milliseconds(3));
      simulator.add(*batches[static_cast<std::size_t>(round) % batches.size()], 10);
    }
    for (Batch* batch : batches) ended[often].push_back(batch->ended);
  }
  EXPECT_EQ(ended[0], ended[1]);
}

}  // namespace
}  // namespace locksley::test
