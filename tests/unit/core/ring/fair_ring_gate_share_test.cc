// Who gets what where gates bind, and afterwards.
// Length: one fixture, whose tests share its ring and its gates.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"
#include "tests/support/ring_simulator.h"

namespace locksley::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Batch = RingSimulator::Batch;

constexpr std::uint32_t kWorkers = 8;
// No job of these tests is longer than 4 ms, nor is the quantum.
constexpr Nanoseconds kLongestTurn = milliseconds(5);
// The bound of core/FAIRNESS.md for two tenants of weight 1.
constexpr Nanoseconds kBound = 2 * kWorkers * kLongestTurn;

class FairRingGateShareTest : public ::testing::Test {
 protected:
  RingSimulator simulator{{.parallelism = kWorkers}, kWorkers};
  FairRing& ring = simulator.ring;
  std::map<Batch*, Nanoseconds> before;

  Batch& enter(const std::string& tenant, GateId gate, RingSimulator::Cost cost = uneven(milliseconds(4)),
               std::uint64_t jobs = kEndless, std::uint32_t weight = 1) {
    return simulator.submit({.tenant = tenant, .weight = weight, .gate = gate}, jobs, std::move(cost), true);
  }
  GateId gate(std::uint32_t concurrency) { return *ring.gates().add({.concurrency = concurrency}); }
  void mark() {
    before.clear();
    for (const auto& batch : simulator.batches()) before[batch.get()] = batch->received(simulator.now());
  }
  // Since mark().
  Nanoseconds got(Batch& batch) { return batch.received(simulator.now()) - before[&batch]; }
  // Workers that the batch had in the next `length`, on average.
  std::vector<double> slots_of(const std::vector<Batch*>& batches, Nanoseconds length) {
    mark();
    simulator.run_for(length);
    std::vector<double> slots;
    for (Batch* batch : batches) {
      slots.push_back(static_cast<double>(got(*batch).count()) / static_cast<double>(length.count()));
    }
    return slots;
  }
  // For the next 5 s, at every moment, a and b are no further apart than the bound.
  void expect_bound(Batch& a, Batch& b, const char* what) {
    mark();
    Nanoseconds worst{};
    for (int i = 0; i < 500; ++i) {
      simulator.run_for(milliseconds(10));
      worst = std::max(worst, Nanoseconds{std::abs((got(a) - got(b)).count())});
    }
    EXPECT_LE(worst, kBound) << what;
  }
};

TEST_F(FairRingGateShareTest, AGateThatBindsChangesNeitherOrderNorSizeOfClaims) {
  // Two workers; and eight, of which a gate admits two.
  std::vector<std::vector<std::pair<std::string, std::uint64_t>>> orders;
  for (const std::uint32_t workers : {2U, kWorkers}) {
    RingSimulator each({.parallelism = workers}, workers);
    const GateId gate = workers == 2 ? 0 : *each.ring.gates().add({.concurrency = 2});
    auto& order = orders.emplace_back();
    std::map<Batch*, std::pair<std::string, std::uint64_t>> known;
    each.on_step = [&] {
      for (auto& [batch, seen] : known) {
        if (batch->claims != seen.second) order.emplace_back(seen.first, seen.second = batch->claims);
      }
    };
    for (int i = 0; i < 12; ++i) {
      const std::string tenant(1, static_cast<char>('a' + i % 3));
      each.ring.groups().set_tenant_weight(tenant, static_cast<std::uint32_t>(1 + i % 3));
      const auto weight = static_cast<std::uint32_t>(1 + i % 4);
      Batch& batch = each.submit({.tenant = tenant, .weight = weight, .gate = gate}, 2000,
                                 uneven(microseconds(300 + 400 * i)));
      known.try_emplace(&batch, tenant + std::to_string(i), 0);
    }
    std::ranges::sort(order);
    each.run_for(seconds(3));
    ASSERT_GT(order.size(), 1000U);
  }
  EXPECT_EQ(orders[0], orders[1]);
}

TEST_F(FairRingGateShareTest, ThoseAtABoundGateShareItByWeightAndTheOthersShareTheRest) {
  const GateId narrow = gate(2);
  ring.groups().set_tenant_weight("d", 3);
  ring.groups().set_tenant_weight("c", 2);
  Batch& a = enter("a", narrow);
  Batch& d = enter("d", narrow, uneven(milliseconds(1)));
  Batch& b = enter("b", 0, uneven(microseconds(100)));
  Batch& c = enter("c", 0);
  const auto slots = slots_of({&a, &d, &b, &c}, seconds(20));
  EXPECT_NEAR(slots[0], 0.5, 0.03);
  EXPECT_NEAR(slots[1], 1.5, 0.05);
  EXPECT_NEAR(slots[2], 2, 0.05);
  EXPECT_NEAR(slots[3], 4, 0.05);
  EXPECT_NEAR(slots[0] + slots[1] + slots[2] + slots[3], kWorkers, 1e-6) << "no worker was idle";
}

TEST_F(FairRingGateShareTest, ATenantThatIsServedElsewhereYieldsAtABoundGate) {
  const GateId narrow = gate(2);
  Batch& a = enter("a", narrow);
  Batch& b = enter("b", 0);
  Batch& b_narrow = enter("b", narrow);
  Batch& c = enter("c", 0);
  const auto slots = slots_of({&a, &b, &b_narrow, &c}, seconds(20));
  EXPECT_GT(slots[0], 1.7) << "2 are due to it, and less than 2 it gets only where its jobs end in a row";
  EXPECT_NEAR(slots[1] + slots[2], slots[3], 0.1);
}

TEST_F(FairRingGateShareTest, ATenantsBatchesOfSeveralGatesShareByTheirWeights) {
  const GateId one = gate(0);
  const GateId two = gate(0);
  Batch& a = enter("a", one, uneven(milliseconds(1)), kEndless, 1);
  Batch& b = enter("a", two, uneven(milliseconds(3)), kEndless, 3);
  Batch& other = enter("b", two);
  auto slots = slots_of({&a, &b, &other}, seconds(20));
  EXPECT_NEAR(slots[0], 1, 0.05);
  EXPECT_NEAR(slots[1], 3, 0.05);
  EXPECT_NEAR(slots[2], 4, 0.05);
  // Also after one of the gates has bound for a while.
  ring.gates().set_concurrency(two, 2);
  simulator.run_for(seconds(20));
  ring.gates().set_concurrency(two, 0);
  slots = slots_of({&a, &b, &other}, seconds(20));
  EXPECT_NEAR(slots[0], 1, 0.05);
  EXPECT_NEAR(slots[1], 3, 0.05);
  EXPECT_NEAR(slots[2], 4, 0.05);
}

// The greatest shares by weight that the gates admit: at each gate min(its concurrency, level *
// weights there).
std::vector<double> ideal(const std::vector<std::uint32_t>& concurrency, const std::vector<GateId>& gate_of,
                          const std::vector<std::uint32_t>& weights, double workers) {
  std::vector<double> sums(concurrency.size());
  for (std::size_t i = 0; i < weights.size(); ++i) sums[gate_of[i]] += weights[i];
  double low = 0, high = workers;
  const auto at = [&](std::size_t gate, double level) {
    const double most = concurrency[gate] == 0 ? workers : concurrency[gate];
    return std::min(most, level * sums[gate]);
  };
  for (int i = 0; i < 60; ++i) {
    const double level = (low + high) / 2;
    double sum = 0;
    for (std::size_t gate = 0; gate < sums.size(); ++gate) sum += at(gate, level);
    (sum < workers ? low : high) = level;
  }
  std::vector<double> slots;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    slots.push_back(at(gate_of[i], low) * weights[i] / sums[gate_of[i]]);
  }
  return slots;
}

TEST(FairRingGateShareRandomTest, SharesAreTheGreatestThatTheGatesAdmit) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto workers = static_cast<std::uint32_t>(2 + random() % 9);
    RingSimulator simulator({.parallelism = workers}, workers);
    std::vector<std::uint32_t> concurrency{0}, weights;
    for (std::uint64_t i = random() % 3; i < 3; ++i) {
      concurrency.push_back(static_cast<std::uint32_t>(1 + random() % workers));
      simulator.ring.gates().add({.concurrency = concurrency.back()});
    }
    std::vector<GateId> gate_of;
    std::vector<Batch*> batches;
    for (std::uint64_t i = 0; i < 2 + random() % 5; ++i) {
      const std::string tenant = std::to_string(i);
      weights.push_back(static_cast<std::uint32_t>(1 + random() % 5));
      simulator.ring.groups().set_tenant_weight(tenant, weights.back());
      gate_of.push_back(static_cast<GateId>(i == 0 ? 0 : random() % concurrency.size()));
      const Nanoseconds most =
          std::array{microseconds(200), microseconds(2000), microseconds(9000)}[random() % 3];
      batches.push_back(
          &simulator.submit({.tenant = tenant, .gate = gate_of.back()}, kEndless, uneven(most), true));
    }
    simulator.run_for(seconds(1));
    std::vector<Nanoseconds> before;
    for (Batch* batch : batches) before.push_back(batch->received(simulator.now()));
    simulator.run_for(seconds(10));
    const std::vector<double> due = ideal(concurrency, gate_of, weights, workers);
    double sum = 0;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const double slots =
          static_cast<double>((batches[i]->received(simulator.now()) - before[i]).count()) / 1e10;
      // Who would get as much as its gate admits gets a little less: it yields when its jobs end in
      // a row.
      EXPECT_NEAR(slots, due[i], 0.2 * due[i] + 0.1) << "tenant " << i << " at gate " << gate_of[i];
      sum += slots;
    }
    EXPECT_NEAR(sum, workers, 1e-6) << "no worker was idle";
  }
}

TEST_F(FairRingGateShareTest, TimeBeforeAClosedGateEarnsNothing) {
  const GateId closed = gate(0);
  Batch& a = enter("a", closed);
  Batch& d = enter("d", closed);
  Batch& c = enter("c", 0);
  simulator.run_for(seconds(1));
  ring.gates().set_switch(closed, false);
  simulator.run_for(seconds(600));
  ring.gates().set_switch(closed, true);
  expect_bound(a, c, "one that waited, and one that did not");
  expect_bound(a, d, "two that waited");
}

TEST_F(FairRingGateShareTest, TimeAtABoundGateEarnsNothingOnceItIsRaised) {
  const GateId narrow = gate(2);
  Batch& a = enter("a", narrow);
  Batch& d = enter("d", narrow);
  Batch& c = enter("c", 0);
  simulator.run_for(seconds(200));
  ring.gates().set_concurrency(narrow, 0);
  expect_bound(a, c, "one that waited, and one that did not");
  expect_bound(d, c, "later too");
}

TEST_F(FairRingGateShareTest, NobodyOwesToANewcomerForWhatNoOtherCouldUse) {
  const GateId narrow = gate(2);
  enter("a", narrow);
  enter("d", narrow);
  Batch& b = enter("b", 0);
  simulator.run_for(seconds(200));
  mark();
  Batch& newcomer = enter("n", 0);
  expect_bound(b, newcomer, "the one that had six workers, and the newcomer");
}

TEST_F(FairRingGateShareTest, NobodyOwesAtAnotherGateForWhatNoOtherCouldUse) {
  const GateId narrow = gate(2);
  Batch& a = enter("a", narrow);
  enter("d", narrow);
  Batch& b = enter("b", 0);
  simulator.run_for(seconds(200));
  simulator.cancel(b);
  Batch& gone = enter("b", narrow);
  expect_bound(a, gone, "the one that had six workers comes to the gate");
}

TEST_F(FairRingGateShareTest, NobodyOwesAtAGateWhereItWaitedForWhatItGotElsewhere) {
  const GateId narrow = gate(2);
  Batch& a = enter("a", narrow);
  Batch& b = enter("b", 0);
  Batch& b_narrow = enter("b", narrow);
  simulator.run_for(seconds(200));
  simulator.cancel(b);
  expect_bound(a, b_narrow, "the one that had six workers elsewhere");
}

TEST_F(FairRingGateShareTest, NobodyOwesForExecutorsThatNoOtherCouldHave) {
  const GateId far = gate(0);
  // Four of the eight serve one gate only.
  simulator.restricted.assign(4, GateSet(far));
  Batch& a = enter("a", far);
  Batch& c = enter("c", 0);
  Batch& d = enter("d", 0);
  const auto slots = slots_of({&a, &c, &d}, seconds(200));
  EXPECT_NEAR(slots[0], 4, 0.1) << "it has four, and yields the others";
  EXPECT_NEAR(slots[1], 2, 0.1);
  Batch& newcomer = enter("n", far);
  expect_bound(a, newcomer, "the one that had four alone, and a newcomer there");
  Batch& a_here = enter("a", 0);
  simulator.cancel(a);
  expect_bound(a_here, c, "and where it had none");
}

TEST_F(FairRingGateShareTest, ATinyJobAtAnotherGateChangesNoPlaceAtABoundOne) {
  const GateId narrow = gate(1);
  ring.groups().set_tenant_weight("d", 3);
  Batch& a = enter("a", narrow, [](std::uint64_t) { return milliseconds(4); });
  Batch& d = enter("d", narrow, [](std::uint64_t) { return milliseconds(4); });
  enter("b", 0, uneven(microseconds(100)));
  Batch& tiny = enter("a", 0, [](std::uint64_t) { return microseconds(1); }, 0);
  for (int i = 1; i <= 10'000; ++i) {
    simulator.at(i * milliseconds(1) + microseconds(i * 37 % 1000), [&] { simulator.add(tiny, 1); });
  }
  simulator.run_for(seconds(1));
  const auto slots = slots_of({&a, &d, &tiny}, seconds(8));
  EXPECT_NEAR(slots[0], 0.25, 0.01);
  EXPECT_NEAR(slots[1], 0.75, 0.01);
  EXPECT_GT(tiny.ended, 8000U);
}

TEST_F(FairRingGateShareTest, ATenantThatRunsDryAfterEachJobKeepsItsDebtAtABoundGate) {
  const GateId narrow = gate(1);
  ring.groups().set_tenant_weight("d", 3);
  Batch& a = enter("a", narrow, [](std::uint64_t) { return milliseconds(4); }, 1);
  Batch& d = enter("d", narrow, [](std::uint64_t) { return milliseconds(4); });
  enter("b", 0, uneven(microseconds(100)));
  simulator.on_step = [&] {
    if (ring.view().queue(a.queue, simulator.now()).queued == 0 && a.ended == a.added) {
      a.added += ring.add_jobs(a.queue, 1, simulator.now()) ? 1 : 0;
    }
  };
  const auto slots = slots_of({&a, &d}, seconds(10));
  EXPECT_NEAR(slots[0], 0.25, 0.01);
  EXPECT_NEAR(slots[1], 0.75, 0.01);
}

TEST_F(FairRingGateShareTest, ScarceStartsOfOneGateCostNothingAtOthers) {
  // A start in 10 ms, charged as if it had taken a worker's 40 ms.
  const GateId scarce = *ring.gates().add({.start_cost = milliseconds(40)});
  Batch& a = enter("a", scarce, [](std::uint64_t) { return microseconds(10); });
  Batch& a_other = enter("a", 0);
  Batch& c = enter("c", 0);
  ring.gates().set_switch(scarce, false);
  for (int i = 1; i <= 1000; ++i) {
    simulator.at(i * milliseconds(10), [&] { ring.gates().set_switch(scarce, true); });
  }
  std::uint64_t claims = 0;
  simulator.on_step = [&] {
    if (std::exchange(claims, a.claims) != a.claims) ring.gates().set_switch(scarce, false);
  };
  const auto slots = slots_of({&a, &a_other, &c}, seconds(10));
  EXPECT_GE(a.claims, 900U);
  EXPECT_NEAR(slots[1], slots[2], 0.1);
}

// While queues wait that these executors do not serve, their own level moves back again and again,
// and its keys grow although the clock does not.
TEST_F(FairRingGateShareTest, TwoShareARemoteGateForCenturiesThoughTheClockStands) {
  constexpr Nanoseconds kHour = std::chrono::hours(1);
  constexpr int kLeases = 10;
  constexpr std::uint32_t kWidth = 4096;
  FairRing remote({.parallelism = 2});
  const GateId gate = *remote.gates().add({.is_on = false, .is_remote = true});
  remote.set_remote_parallelism(kLeases * kWidth);
  RingQueue a, b, local;
  Nanoseconds now{1};
  for (RingQueue* queue : {&a, &b}) {
    remote.attach(*queue, {.tenant = queue == &a ? "a" : "b", .cost_hint = kHour, .gate = gate}, nullptr);
    remote.add_jobs(*queue, kEndless, now);
  }
  remote.attach(local, {.tenant = "local", .cost_hint = kHour}, nullptr);
  remote.add_jobs(local, kEndless, now);
  const auto end = [&](const std::optional<Claim>& claim) {
    const Settlement whole{
        .charged = claim->charged, .actual = claim->charged.width() * kHour, .executed = claim->range.size()};
    (void)remote.settle(*claim->queue, whole, now);
  };
  const GateSet gates(gate);
  const ClaimRequest request{
      .most = kWidth, .width = kWidth, .quantum = kHour, .gates = &gates, .site = Site::kRemote};
  std::optional<Claim> local_claim;
  std::array<std::optional<Claim>, kLeases> held;
  std::map<RingQueue*, int> claims;
  for (int hours = 0; hours < 200; ++hours) {
    claims.clear();
    if (local_claim) end(local_claim);
    local_claim = remote.try_claim(now);
    for (auto& claim : held) {
      now += kHour / kLeases;
      if (claim) end(claim);
      claim = remote.try_claim(now, request);
      ASSERT_TRUE(claim);
      ++claims[claim->queue];
    }
    ASSERT_NEAR(claims[&a], kLeases / 2, 1) << "after " << hours << " hours";
  }
  for (const auto& claim : held) end(claim);
  end(local_claim);
  remote.detach_all();
}

TEST_F(FairRingGateShareTest, ClocksThatAreSetBackChangeNothingAtGates) {
  std::vector<std::vector<Nanoseconds>> received;
  for (const VirtualTime set_back_at : {VirtualTime{1} << 61, VirtualTime{20'000'000}}) {
    RingSimulator each({.parallelism = 4, .set_back_at = set_back_at}, 4);
    const GateId narrow = *each.ring.gates().add({.concurrency = 2});
    for (const GateId gate : {narrow, narrow, GateId{0}, GateId{0}}) {
      for (const char name : {'a', 'b', 'c'}) {
        each.submit({.tenant = std::string(1, name), .gate = gate}, kEndless, uneven(microseconds(700)),
                    true);
      }
    }
    for (int i = 1; i < 40; ++i) {
      each.at(i * milliseconds(23), [&each, narrow, i] { each.ring.gates().set_switch(narrow, i % 3 != 0); });
    }
    each.run_for(seconds(1));
    for (const auto& batch : each.batches()) received.emplace_back().push_back(batch->received(each.now()));
  }
  const std::size_t half = received.size() / 2;
  for (std::size_t i = 0; i < half; ++i) EXPECT_EQ(received[i], received[i + half]);
}

}  // namespace
}  // namespace locksley::test
