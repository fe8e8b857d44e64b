// Caps and rates of users and customers: they are kept, and take nothing from others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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

class FairRingLimitsTest : public ::testing::Test {
 protected:
  FairRingLimitsTest() {
    ring.groups().on_customer([this](std::string_view, std::string_view customer) {
      const auto found = limits.find(customer);
      return found == limits.end() ? GroupLimits{} : found->second;
    });
    simulator.on_step = [this] { look(); };
  }
  Batch& enter(const std::string& tenant, const std::string& customer, Nanoseconds longest = milliseconds(4),
               std::uint64_t jobs = kEndless, GateId gate = 0) {
    names.push_back(tenant + "/" + customer);
    return simulator.submit({.tenant = tenant, .customer = customer, .gate = gate}, jobs, uneven(longest),
                            true);
  }
  // The most executors at once, by "tenant" and by "tenant/customer".
  void look() {
    std::map<std::string, std::uint32_t> now;
    for (std::size_t i = 0; i < simulator.batches().size(); ++i) {
      const std::uint32_t running = simulator.batches()[i]->running;
      now[names[i]] += running;
      now[names[i].substr(0, names[i].find('/'))] += running;
    }
    for (const auto& [name, running] : now) most[name] = std::max(most[name], running);
  }
  Nanoseconds received(const std::string& name) const {
    Nanoseconds sum{};
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name || names[i].starts_with(name + "/"))
        sum += simulator.batches()[i]->received(simulator.now());
    }
    return sum;
  }
  // Workers that `name` has on average in the next `length`.
  double slots_of(const std::string& name, Nanoseconds length) {
    const Nanoseconds before = received(name);
    simulator.run_for(length);
    return static_cast<double>((received(name) - before).count()) / static_cast<double>(length.count());
  }
  Nanoseconds all() const {
    Nanoseconds sum{};
    for (const auto& batch : simulator.batches()) sum += batch->received(simulator.now());
    return sum;
  }

  static constexpr std::uint32_t kWorkers = 8;
  std::map<std::string, GroupLimits, std::less<>> limits;
  RingSimulator simulator{{.parallelism = kWorkers}, kWorkers};
  FairRing& ring = simulator.ring;
  std::vector<std::string> names;
  std::map<std::string, std::uint32_t> most;
};

TEST_F(FairRingLimitsTest, ACapIsKeptAndNoSlotIsIdle) {
  limits["capped"] = {.weight = 100, .slots = 2};
  for (int i = 0; i < 5; ++i) enter("shop", "capped");
  enter("shop", "other");
  simulator.run_for(seconds(5));
  EXPECT_EQ(most["shop/capped"], 2U);
  EXPECT_EQ(all(), seconds(5) * kWorkers);
  EXPECT_NEAR(slots_of("shop/capped", seconds(5)), 2, 0.02)
      << "it has what it may have, since more is due to it";
}

TEST_F(FairRingLimitsTest, AHundredCustomersAtTheirCapAndOneWithout) {
  // Each has a cap of one slot; of a hundred more workers than there are, none is idle.
  RingSimulator many({.parallelism = 150}, 150);
  many.ring.groups().on_customer([](std::string_view, std::string_view customer) {
    return customer == "free" ? GroupLimits{} : GroupLimits{.weight = 1, .slots = 1};
  });
  std::vector<Batch*> capped;
  for (int i = 0; i < 300; ++i) {
    capped.push_back(&many.submit({.tenant = "shop", .customer = std::to_string(i % 100)}, kEndless,
                                  uneven(milliseconds(4))));
  }
  Batch& free = many.submit({.tenant = "shop", .customer = "free"}, kEndless, uneven(milliseconds(4)));
  many.run_for(seconds(10));
  Nanoseconds sum{};
  for (Batch* batch : capped) {
    sum += batch->received(many.now());
    ASSERT_EQ(batch->most_running, 1U);
  }
  EXPECT_EQ(sum + free.received(many.now()), seconds(10) * 150) << "no worker rested";
  EXPECT_NEAR(static_cast<double>(sum.count()) / 1e9, 10 * 100, 10) << "each of them has its slot";
  EXPECT_NEAR(static_cast<double>(free.received(many.now()).count()) / 1e9, 10 * 50, 10);
}

TEST_F(FairRingLimitsTest, ACapOfTheUserHoldsForAllItsCustomersTogether) {
  ring.groups().set_tenant_limits("shop", {.weight = 9, .slots = 3}, simulator.now());
  limits["a"].slots = 2;
  for (int i = 0; i < 3; ++i) {
    enter("shop", "a");
    enter("shop", "b");
    enter("shop", "");
    enter("plain", "");
  }
  EXPECT_NEAR(slots_of("shop", seconds(10)), 3, 0.06);
  EXPECT_EQ(most["shop"], 3U);
  EXPECT_LE(most["shop/a"], 2U);
  EXPECT_NEAR(slots_of("shop/a", seconds(10)), 1, 0.04) << "customers share what their user may have";
  EXPECT_NEAR(slots_of("shop/", seconds(10)), 1, 0.04);
  EXPECT_EQ(all(), simulator.now() * kWorkers);
}

// FAIRNESS.md, "Limits of groups": after jobs that end in a row, others are served for a moment.
TEST_F(FairRingLimitsTest, AGroupToWhichAboutAsMuchIsDueAsItMayHaveGetsUpToAFifthLess) {
  for (const std::uint32_t slots : {1U, 2U, 3U, 4U}) {
    const std::string name = "capped-" + std::to_string(slots);
    ring.groups().set_tenant_limits(name, {.slots = slots}, simulator.now());
    for (int i = 0; i < 3; ++i) enter(name, "");
    if (slots == 1) enter("plain", "");
    // Half of the workers are due to each of them, and then less.
    const double got = slots_of(name, seconds(10));
    const double due = static_cast<double>(kWorkers) / (slots + 1);
    EXPECT_GE(got, 0.8 * std::min<double>(slots, due)) << name;
    EXPECT_LE(most[name], slots);
  }
  EXPECT_EQ(all(), simulator.now() * kWorkers) << "no worker rested";
}

TEST_F(FairRingLimitsTest, ACapOfAUserWithoutCustomersIsKept) {
  ring.groups().set_tenant_limits("shop", {.slots = 3}, simulator.now());
  for (int i = 0; i < 3; ++i) enter("shop", "");
  simulator.run_for(seconds(1));
  EXPECT_EQ(most["shop"], 3U);
  EXPECT_EQ(all(), seconds(1) * 3) << "the others have nothing to do";
  EXPECT_FALSE(ring.hints().has_work()) << "an idle worker has no reason to look";
  enter("plain", "");
  EXPECT_TRUE(ring.hints().has_work() || most["plain"] != 0);
}

TEST_F(FairRingLimitsTest, CapsActAtOnceWhereverTheyAreChanged) {
  enter("shop", "a");
  Batch& a = enter("shop", "a");
  enter("shop", "b");
  simulator.run_for(seconds(1));
  const auto settled = [&](double expected, const std::string& name) {
    simulator.run_for(milliseconds(5));  // what runs goes on
    most.clear();
    EXPECT_NEAR(slots_of(name, seconds(4)), expected, expected * 0.1) << name;
  };
  ring.groups().set_customer_limits("shop", "a", {.slots = 1}, simulator.now());
  settled(1, "shop/a");
  EXPECT_EQ(most["shop/a"], 1U);
  ring.groups().set_tenant_limits("shop", {.slots = 3}, simulator.now());
  settled(3, "shop");
  EXPECT_EQ(most["shop"], 3U);
  ring.groups().set_customer_limits("shop", "a", {.slots = 2}, simulator.now());
  settled(1.5, "shop/a");
  ring.groups().set_tenant_limits("shop", {}, simulator.now());
  ring.groups().set_customer_limits("shop", "a", {}, simulator.now());
  settled(4, "shop/a");
  ring.set_slots(a.queue, 1, simulator.now());
  simulator.run_for(milliseconds(5));
  a.most_running = 0;
  simulator.run_for(seconds(1));
  EXPECT_EQ(a.most_running, 1U);
  ring.set_slots(a.queue, 0, simulator.now());
  simulator.run_for(seconds(1));
  EXPECT_GT(a.most_running, 1U);
  ring.groups().set_customer_limits("shop", "unknown", {.slots = 1}, simulator.now());
  EXPECT_FALSE(ring.view().customer("shop", "unknown", simulator.now())) << "it costs nothing";
}

TEST_F(FairRingLimitsTest, TheCustomerWithoutANameMayHaveLimits) {
  enter("shop", "");
  enter("shop", "");
  enter("other", "");
  simulator.run_for(seconds(1));
  ring.groups().set_customer_limits("shop", "", {.slots = 1}, simulator.now());
  EXPECT_NEAR(slots_of("shop", seconds(5)), 1, 0.02);
  enter("shop", "named");
  EXPECT_NEAR(slots_of("shop", seconds(5)), 4, 0.05);
  EXPECT_NEAR(slots_of("shop/", seconds(5)), 1, 0.1);
  // Asked when it comes, too.
  limits[""] = {.slots = 2};
  enter("third", "");
  simulator.run_for(milliseconds(10));
  EXPECT_EQ(ring.view().customer("third", "", simulator.now())->slots, 2U);
  simulator.run_for(seconds(1));
  EXPECT_EQ(most["third"], 2U);
}

// While a customer is at its cap it earns nothing: raised later, it has no more than is due to it
// from then on.
TEST_F(FairRingLimitsTest, TimeAtACapEarnsNothing) {
  for (int i = 0; i < 3; ++i) {
    enter("shop", "capped");
    enter("shop", "other");
  }
  ring.groups().set_customer_limits("shop", "capped", {.slots = 1}, simulator.now());
  simulator.run_for(seconds(60));
  const Nanoseconds capped = received("shop/capped"), other = received("shop/other");
  ring.groups().set_customer_limits("shop", "capped", {}, simulator.now());
  simulator.run_for(seconds(2));
  const Nanoseconds bound = 2 * kWorkers * milliseconds(5);
  EXPECT_LE(std::chrono::abs((received("shop/capped") - capped) - (received("shop/other") - other)), bound);
}

// A lease of several slots has no more of them than its customer may have, nor than the user.
TEST_F(FairRingLimitsTest, LeasesCountByTheirWidth) {
  FairRing leases({});
  RingQueue queue, other;
  leases.attach(queue, {.tenant = "shop", .customer = "a", .cost_hint = milliseconds(1)}, nullptr);
  leases.attach(other, {.tenant = "shop", .customer = "b", .cost_hint = milliseconds(1)}, nullptr);
  leases.groups().set_customer_limits("shop", "a", {.slots = 3}, Nanoseconds{0});
  leases.groups().set_tenant_limits("shop", {.slots = 5}, Nanoseconds{0});
  leases.add_jobs(queue, 100, Nanoseconds{0});
  const auto first = leases.try_claim(Nanoseconds{0}, ClaimRequest{.width = 2, .site = Site::kLocal});
  const auto second = leases.try_claim(Nanoseconds{0}, ClaimRequest{.width = 2, .site = Site::kLocal});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->charged.width(), 2U);
  EXPECT_EQ(second->charged.width(), 1U) << "the third of the customer";
  EXPECT_TRUE(second->charged.is_capped());
  EXPECT_FALSE(leases.view().has_place(queue));
  EXPECT_TRUE(leases.view().queue(queue, Nanoseconds{0}).customer_at_limit);
  EXPECT_FALSE(leases.view().queue(queue, Nanoseconds{0}).tenant_at_limit);
  EXPECT_FALSE(leases.view().queue(queue, Nanoseconds{0}).waiting);
  leases.add_jobs(other, 100, Nanoseconds{0});
  const auto third = leases.try_claim(Nanoseconds{0}, ClaimRequest{.width = 9});
  ASSERT_TRUE(third);
  EXPECT_EQ(third->queue, &other);
  EXPECT_EQ(third->charged.width(), 2U) << "the fifth of the user";
  EXPECT_TRUE(leases.view().queue(queue, Nanoseconds{0}).tenant_at_limit);
  EXPECT_FALSE(leases.hints().has_work());
  for (const auto& claim : {first, second, third}) {
    (void)leases.settle(*claim->queue, {.charged = claim->charged, .left = claim->range}, Nanoseconds{0});
    EXPECT_TRUE(leases.hints().has_work());
  }
  EXPECT_FALSE(leases.view().queue(queue, Nanoseconds{0}).customer_at_limit);
  leases.detach_all();
}

TEST_F(FairRingLimitsTest, OnlyClaimsThatNoCapBindsMayBeStolenFrom) {
  RingQueue queue, plain;
  FairRing caps({});
  caps.attach(queue, {.tenant = "shop", .customer = "a", .cost_hint = microseconds(1)}, nullptr);
  caps.add_jobs(queue, 1'000'000, Nanoseconds{0});
  const auto is_capped = [&] {
    const auto claim = caps.try_claim(Nanoseconds{0});
    const Charge thief = caps.join(queue, Nanoseconds{0});
    EXPECT_EQ(claim->charged.is_capped(), thief.is_capped());
    EXPECT_EQ(claim->charged.gate(), 0U);
    (void)caps.settle(queue, {.charged = thief}, Nanoseconds{0});
    (void)caps.settle(queue, {.charged = claim->charged, .left = claim->range}, Nanoseconds{0});
    return claim->charged.is_capped();
  };
  EXPECT_FALSE(is_capped());
  caps.set_slots(queue, 5, Nanoseconds{0});
  EXPECT_TRUE(is_capped());
  caps.set_slots(queue, 0, Nanoseconds{0});
  EXPECT_FALSE(is_capped());
  caps.groups().set_customer_limits("shop", "a", {.slots = 5}, Nanoseconds{0});
  EXPECT_TRUE(is_capped());
  caps.groups().set_customer_limits("shop", "a", {.start_interval = Nanoseconds(1)}, Nanoseconds{0});
  EXPECT_FALSE(is_capped());
  caps.groups().set_tenant_limits("shop", {.slots = 5}, Nanoseconds{0});
  EXPECT_TRUE(is_capped());
  caps.detach_all();
}

TEST_F(FairRingLimitsTest, CapsWorkAtSeveralGates) {
  const GateId narrow = *ring.gates().add({.concurrency = 2}), wide = *ring.gates().add({});
  limits["a"].slots = 4;
  for (const GateId gate : {GateId{0}, narrow, wide}) {
    enter("shop", "a", milliseconds(4), kEndless, gate);
    enter("shop", "b", milliseconds(4), kEndless, gate);
    enter("other", "", milliseconds(4), kEndless, gate);
  }
  ring.groups().set_tenant_limits("shop", {.weight = 3, .slots = 5}, simulator.now());
  simulator.run_for(seconds(20));
  EXPECT_LE(most["shop"], 5U);
  EXPECT_LE(most["shop/a"], 4U);
  EXPECT_EQ(all(), seconds(20) * kWorkers) << "no worker rested";
  EXPECT_NEAR(slots_of("shop", seconds(20)), 5, 0.5);
  EXPECT_NEAR(slots_of("shop/a", seconds(20)) / slots_of("shop/b", seconds(20)), 1, 0.1);
}

// ---- Rates ----

TEST_F(FairRingLimitsTest, ARateSpacesStartsEvenlyAndLeavesTheRestToOthers) {
  limits["slow"] = {.start_interval = milliseconds(20)};
  Batch& slow = enter("shop", "slow", milliseconds(4));
  enter("shop", "other");
  simulator.run_for(seconds(10));
  EXPECT_NEAR(static_cast<double>(slow.ended), 500, 10) << "what starts late is not made up for";
  EXPECT_LE(slow.ended, 501U);
  EXPECT_EQ(all(), seconds(10) * kWorkers) << "no worker rested";
  EXPECT_FALSE(ring.view().queue(slow.queue, simulator.now()).waiting);
  EXPECT_TRUE(ring.view().queue(slow.queue, simulator.now()).customer_at_limit);
  EXPECT_TRUE(ring.view().customer("shop", "slow", simulator.now())->at_limit);
}

TEST_F(FairRingLimitsTest, ARateAboveTheToleranceStartsSeveralJobsAtOnce) {
  limits["fast"] = {.start_interval = microseconds(10)};
  Batch& fast = enter("shop", "fast", microseconds(20));
  simulator.run_for(seconds(2));
  EXPECT_NEAR(static_cast<double>(fast.ended), 200'000, 2'000) << "100,000 a second, and 10 ms of it at once";
}

TEST_F(FairRingLimitsTest, TheRateOfAUserIsThatOfItsCustomersTogether) {
  ring.groups().set_tenant_limits("shop", {.start_interval = milliseconds(5)}, simulator.now());
  limits["slow"] = {.start_interval = milliseconds(50)};
  std::vector<Batch*> batches{&enter("shop", "slow", milliseconds(4)), &enter("shop", "a", milliseconds(4)),
                              &enter("shop", "b", milliseconds(4)), &enter("shop", "", milliseconds(4))};
  simulator.run_for(seconds(20));
  std::uint64_t ended = 0;
  for (Batch* batch : batches) ended += batch->ended;
  EXPECT_NEAR(static_cast<double>(ended), 4'000, 10);
  EXPECT_NEAR(static_cast<double>(batches[0]->ended), 400, 5);
  EXPECT_TRUE(ring.view().queue(batches[1]->queue, simulator.now()).tenant_at_limit);
  EXPECT_FALSE(ring.view().queue(batches[1]->queue, simulator.now()).customer_at_limit);
}

TEST_F(FairRingLimitsTest, RatesActAtOnceWhenTheyAreChanged) {
  limits["slow"] = {.start_interval = std::chrono::hours(1)};
  Batch& slow = enter("shop", "slow", milliseconds(1));
  simulator.run_for(seconds(2));
  EXPECT_EQ(slow.ended, 1U);
  ring.groups().set_customer_limits("shop", "slow", {.start_interval = milliseconds(100)}, simulator.now());
  simulator.add(slow, 1);  // a step, for the simulated workers to look
  simulator.run_for(seconds(10));
  EXPECT_NEAR(static_cast<double>(slow.ended), 101, 1);
  ring.groups().set_customer_limits("shop", "slow", {}, simulator.now());
  simulator.run_for(seconds(1));
  EXPECT_GT(slow.ended, 10'000U);
}

// What the owner of the ring's timer sees.
TEST_F(FairRingLimitsTest, AWaitForARateIsToldOnceAndEnds) {
  FairRing rates({});
  RingQueue queue, other;
  rates.attach(queue, {.tenant = "shop", .customer = "slow"}, nullptr);
  rates.groups().set_customer_limits("shop", "slow", {.start_interval = milliseconds(100)}, Nanoseconds{0});
  EXPECT_FALSE(rates.has_new_wait());
  rates.add_jobs(queue, 10, Nanoseconds{0});
  auto claim = rates.try_claim(Nanoseconds{0});
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->range.size(), 1U);
  EXPECT_TRUE(rates.has_new_wait());
  EXPECT_FALSE(rates.has_new_wait()) << "it is told once";
  EXPECT_FALSE(rates.hints().has_work());
  EXPECT_EQ(rates.end_waits(milliseconds(99)), milliseconds(100));
  EXPECT_FALSE(rates.hints().has_work());
  const auto arrivals = rates.hints().arrivals();
  EXPECT_EQ(rates.end_waits(milliseconds(100)), std::nullopt);
  EXPECT_TRUE(rates.hints().has_work());
  EXPECT_NE(rates.hints().arrivals(), arrivals);

  // A job that goes back without having begun has used no start; one that has begun, has.
  (void)rates.settle(queue, {.charged = claim->charged, .left = claim->range}, milliseconds(100));
  claim = rates.try_claim(milliseconds(100));
  EXPECT_FALSE(rates.hints().has_work());
  (void)rates.settle(queue, {.charged = claim->charged, .left = claim->range}, milliseconds(100));
  EXPECT_TRUE(rates.hints().has_work());
  claim = rates.try_claim(milliseconds(100));
  (void)rates.settle(queue, {.charged = claim->charged, .started = 1, .left = claim->range},
                     milliseconds(100));
  EXPECT_FALSE(rates.hints().has_work());

  // Without jobs nothing waits.
  EXPECT_EQ(rates.end_waits(milliseconds(100)), milliseconds(200));
  EXPECT_FALSE(rates.cancel(queue, milliseconds(100)).empty());
  EXPECT_EQ(rates.end_waits(milliseconds(100)), std::nullopt);
}

// Start costs are of a gate, rates of a group: both at once.
TEST_F(FairRingLimitsTest, RatesAndStartCosts) {
  ring.gates().set_start_cost(0, milliseconds(10));
  limits["slow"] = {.start_interval = milliseconds(20)};
  Batch& slow = enter("shop", "slow", milliseconds(1));
  Batch& other = enter("shop", "other", milliseconds(1));
  simulator.run_for(seconds(10));
  EXPECT_NEAR(static_cast<double>(slow.ended), 500, 2);
  EXPECT_GT(other.ended, 10'000U);
}

}  // namespace
}  // namespace locksley::test
