// Customers, the level between tenants and batches: who gets how much, and when a customer is
// forgotten.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_leases.h"
#include "core/ring/fair_ring_view.h"
#include "tests/support/ring_simulator.h"

namespace locksley::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Batch = RingSimulator::Batch;

class FairRingCustomersTest : public ::testing::Test {
 protected:
  FairRingCustomersTest() {
    simulator.ring.groups().on_customer([this](std::string_view, std::string_view customer) {
      const auto found = limits.find(customer);
      return found == limits.end() ? GroupLimits{} : found->second;
    });
  }
  Batch& enter(const std::string& tenant, const std::string& customer, Nanoseconds longest = milliseconds(2),
               std::uint64_t jobs = kEndless, std::uint32_t weight = 1) {
    return simulator.submit({.tenant = tenant, .customer = customer, .weight = weight}, jobs,
                            uneven(longest));
  }
  double got(const std::vector<Batch*>& batches) const {
    Nanoseconds sum{};
    for (const Batch* batch : batches) sum += batch->received(simulator.now());
    return static_cast<double>(sum.count()) / static_cast<double>(simulator.now().count()) / kWorkers;
  }
  std::vector<std::string> names_of(std::string_view tenant) {
    std::vector<std::string> names;
    for (const CustomerView& view :
         simulator.ring.view().customers(tenant, nullptr, 1'000'000, simulator.now()))
      names.push_back(view.customer);
    return names;
  }

  static constexpr std::uint32_t kWorkers = 4;
  std::map<std::string, GroupLimits, std::less<>> limits;
  RingSimulator simulator{{.parallelism = kWorkers}, kWorkers};
};

TEST_F(FairRingCustomersTest, UsersThenCustomersThenBatchesShareEqually) {
  // shop: two customers, with one batch and with three; other: batches that name no customer.
  Batch& a = enter("shop", "a");
  const std::vector<Batch*> b{&enter("shop", "b"), &enter("shop", "b", microseconds(300)),
                              &enter("shop", "b", milliseconds(5))};
  const std::vector<Batch*> other{&enter("other", ""), &enter("other", "")};
  simulator.run_for(seconds(20));
  EXPECT_NEAR(got({&a}), 0.25, 0.005);
  EXPECT_NEAR(got(b), 0.25, 0.005);
  for (Batch* batch : b) EXPECT_NEAR(got({batch}), 0.25 / 3, 0.25 / 3 * 0.02);
  for (Batch* batch : other) EXPECT_NEAR(got({batch}), 0.25, 0.005);
}

TEST_F(FairRingCustomersTest, WeightsOfUsersCustomersAndBatchesMultiply) {
  limits["big"].weight = 3;
  simulator.ring.groups().set_tenant_weight("shop", 2);
  Batch& one = enter("shop", "big", milliseconds(1), kEndless, 1);
  Batch& four = enter("shop", "big", milliseconds(3), kEndless, 4);
  Batch& small = enter("shop", "small");
  Batch& other = enter("other", "x");
  simulator.run_for(seconds(40));
  EXPECT_NEAR(got({&other}), 1.0 / 3, 1.0 / 3 * 0.02);
  EXPECT_NEAR(got({&small}), 2.0 / 3 / 4, 2.0 / 3 / 4 * 0.02);
  EXPECT_NEAR(got({&one}), 2.0 / 3 * 3 / 4 / 5, 2.0 / 3 * 3 / 4 / 5 * 0.02);
  EXPECT_NEAR(got({&four}), 2.0 / 3 * 3 / 4 * 4 / 5, 2.0 / 3 * 3 / 4 * 4 / 5 * 0.02);
}

TEST_F(FairRingCustomersTest, WeightsActOnWhatIsQueued) {
  Batch& a = enter("shop", "a");
  Batch& b = enter("shop", "b");
  simulator.run_for(seconds(5));
  const Nanoseconds before = b.settled;
  simulator.ring.groups().set_customer_limits("shop", "b", {.weight = 3}, simulator.now());
  simulator.run_for(seconds(20));
  EXPECT_NEAR(static_cast<double>((b.settled - before).count()) / 1e9, 60, 60 * 0.02);
  EXPECT_NEAR(static_cast<double>(a.settled.count()) / 1e9, 10 + 20, 30 * 0.02);
}

TEST_F(FairRingCustomersTest, ALateCustomerStartsWithinTheRunningTurns) {
  for (int i = 0; i < 20; ++i) enter("shop", "busy", microseconds(50));
  simulator.run_for(milliseconds(1234));
  for (int i = 0; i < 50; ++i) {
    const Nanoseconds joined = simulator.now();
    Batch& late = enter("shop", "late-" + std::to_string(i), microseconds(50), 10);
    simulator.run_for(milliseconds(30));
    ASSERT_EQ(late.ended, 10U);
    EXPECT_LE(*late.first_start - joined, milliseconds(1) + microseconds(50)) << "a worker ends its turn";
    EXPECT_LE(*late.last_end - joined, milliseconds(4));
  }
}

TEST_F(FairRingCustomersTest, BeingIdleEarnsNothing) {
  Batch& steady = enter("shop", "steady");
  Batch& away = enter("shop", "away", milliseconds(2), 1);
  simulator.run_for(seconds(10));
  ASSERT_EQ(away.ended, 1U);
  const Nanoseconds before = steady.received(simulator.now());
  Batch& back = enter("shop", "away");
  simulator.run_for(seconds(4));
  EXPECT_NEAR(static_cast<double>((steady.received(simulator.now()) - before).count()) / 8e9, 1, 0.01);
  EXPECT_NEAR(static_cast<double>(back.received(simulator.now()).count()) / 8e9, 1, 0.01);
}

// The first customer with a name makes one of all batches that have none.
TEST_F(FairRingCustomersTest, BatchesWithoutACustomerAreOneCustomer) {
  std::vector<Batch*> nameless;
  for (int i = 0; i < 5; ++i) nameless.push_back(&enter("shop", ""));
  Batch& other = enter("other", "");
  simulator.run_for(seconds(10));
  EXPECT_NEAR(got(nameless), 0.5, 0.01);
  EXPECT_THAT(names_of("shop"), ::testing::ElementsAre(""));
  const auto received = [&] {
    Nanoseconds sum{};
    for (Batch* batch : nameless) sum += batch->received(simulator.now());
    return sum;
  };
  const Nanoseconds before = received(), others = other.received(simulator.now());
  Batch& named = enter("shop", "named");
  EXPECT_THAT(names_of("shop"), ::testing::ElementsAre("", "named"));
  simulator.run_for(seconds(10));
  EXPECT_NEAR(static_cast<double>((received() - before).count()) / 10e9, 1, 0.02);
  EXPECT_NEAR(static_cast<double>(named.received(simulator.now()).count()) / 10e9, 1, 0.02);
  EXPECT_NEAR(static_cast<double>((other.received(simulator.now()) - others).count()) / 20e9, 1, 0.02)
      << "the tenant's place among the tenants is the same";
}

// Turns that run when the level of customers comes into being are charged to the right nodes when
// they end.
TEST_F(FairRingCustomersTest, TurnsThatBeganBeforeTheFirstNamedCustomerEndWell) {
  for (const bool as_lease : {false, true}) {
    FairRing ring({.quantum = milliseconds(10), .parallelism = 2});
    RingQueue nameless, other, named;
    ring.attach(nameless, {.tenant = "shop", .cost_hint = milliseconds(10)}, nullptr);
    ring.attach(other, {.tenant = "other", .cost_hint = milliseconds(10)}, nullptr);
    ring.add_jobs(nameless, 1'000, Nanoseconds{0});
    auto first = ring.try_claim(Nanoseconds{0}, ClaimRequest{.most = 2, .width = as_lease ? 2U : 1U});
    ring.attach(named, {.tenant = "shop", .customer = "named", .cost_hint = milliseconds(10)}, nullptr);
    ring.add_jobs(named, 1'000, Nanoseconds{0});
    ring.add_jobs(other, 1'000, Nanoseconds{0});
    const Nanoseconds used = milliseconds(100);
    ring.leases().charge_so_far(nameless, first->charged, used / 2, used / 2);
    (void)ring.settle(nameless, {.charged = first->charged, .actual = used, .executed = first->range.size()},
                      used);
    // shop owes other 100 ms, and the customer without a name owes the other one as much.
    std::map<RingQueue*, int> turns;
    for (int i = 0; i < 40; ++i) {
      const auto claim = ring.try_claim(used);
      ++turns[claim->queue];
      (void)ring.settle(*claim->queue, {.charged = claim->charged, .actual = milliseconds(10), .executed = 1},
                        used);
      if (i == 8) {
        EXPECT_EQ(turns[&nameless] + turns[&named], 0) << "other is owed that";
      }
    }
    EXPECT_NEAR(turns[&other], 25, 1);
    EXPECT_NEAR(turns[&named], 12, 1) << "as it owes 10 turns to the one with a name";
    EXPECT_NEAR(turns[&nameless], 3, 1);
    ring.detach_all();
  }
}

// The customer without a name has a seat at each of two gates then, and no jobs of it may start.
TEST_F(FairRingCustomersTest, TheFirstNamedCustomerMayComeWhileTheUserIsAtItsCap) {
  const GateId other = simulator.ring.gates().add({}).value();
  simulator.ring.groups().set_tenant_limits("shop", {.slots = 1}, simulator.now());
  for (const GateId gate : {GateId{0}, other})
    simulator.submit({.tenant = "shop", .gate = gate}, kEndless, uneven(milliseconds(2)));
  simulator.run_for(milliseconds(10));
  Batch& named =
      simulator.submit({.tenant = "shop", .customer = "a", .gate = other}, kEndless, uneven(milliseconds(2)));
  simulator.ring.groups().set_tenant_limits("shop", {}, simulator.now());
  simulator.run_for(seconds(20));
  EXPECT_NEAR(got({&named}), 0.5, 0.01) << "what the other gets at one gate counts at both";
}

TEST_F(FairRingCustomersTest, ManyCustomersAndOneThatComesLate) {
  // 10,000 customers, of which one has 1,000 batches of 1,000 jobs; then another comes with 10
  // jobs.
  for (int i = 0; i < 10'000; ++i)
    simulator.submit({.tenant = "shop", .customer = std::to_string(i)}, 2, always(milliseconds(1)));
  for (int i = 0; i < 1'000; ++i)
    simulator.submit({.tenant = "shop", .customer = "0"}, 1'000, always(milliseconds(1)));
  simulator.run_for(milliseconds(700));
  const Nanoseconds joined = simulator.now();
  Batch& late = simulator.submit({.tenant = "shop", .customer = "late"}, 10, always(milliseconds(1)));
  simulator.run();
  // A round has a turn of each customer that waits: of all for the first two jobs, and then of
  // customer 0 alone. The bound of FAIRNESS.md is on top.
  const Nanoseconds bound = 2 * kWorkers * milliseconds(1), round = 10'000 * milliseconds(1) / kWorkers;
  EXPECT_LE(*late.first_start - joined, round + bound);
  EXPECT_LE(*late.last_end - joined, 2 * round + 20 * milliseconds(1) + bound);
  for (const auto& batch : simulator.batches()) ASSERT_EQ(batch->ended, batch->added);
  EXPECT_THAT(names_of("shop"), ::testing::IsEmpty()) << "they are forgotten";
}

// The same where the others have work without end: so all that the late customer can rely on is the
// bound.
TEST_F(FairRingCustomersTest, ALateCustomerAmongManyIsServedWithinTheBound) {
  constexpr int kOthers = 100;
  for (int i = 0; i < kOthers; ++i) {
    for (int j = 0; j <= i % 10; ++j) enter("shop", std::to_string(i), milliseconds(1));
  }
  simulator.run_for(seconds(2));
  const Nanoseconds joined = simulator.now();
  Batch& late = simulator.submit({.tenant = "shop", .customer = "late"}, 1'000, always(milliseconds(1)));
  std::vector<Nanoseconds> before;
  for (const auto& batch : simulator.batches()) before.push_back(batch->received(joined));
  while (late.ended != 1'000) simulator.run_for(milliseconds(10));
  std::map<int, Nanoseconds> received;
  std::size_t next = 0;
  for (int i = 0; i < kOthers; ++i) {
    for (int j = 0; j <= i % 10; ++j, ++next)
      received[i] += simulator.batches()[next]->received(*late.last_end) - before[next];
  }
  const Nanoseconds bound = 3 * kWorkers * milliseconds(2);
  for (const auto& [customer, time] : received)
    EXPECT_NEAR(static_cast<double>(time.count()), 1e9, static_cast<double>(bound.count())) << customer;
}

TEST_F(FairRingCustomersTest, ACustomerWithoutBatchesIsForgottenOnceItIsSettled) {
  FairRing ring({.most_idle_customers = 2});
  RingQueue steady, brief[5];
  ring.attach(steady, {.tenant = "shop", .customer = "steady", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(steady, 1'000, Nanoseconds{0});
  const auto names = [&] {
    std::vector<std::string> result;
    for (const auto& view : ring.view().customers("shop", nullptr, 100, Nanoseconds{0}))
      result.push_back(view.customer);
    return result;
  };
  const auto turn = [&](Nanoseconds actual) {
    const auto claim = ring.try_claim(Nanoseconds{0});
    RingQueue* const queue = claim->queue;
    (void)ring.settle(*queue, {.charged = claim->charged, .actual = actual, .executed = claim->range.size()},
                      Nanoseconds{0});
    return queue;
  };
  ring.attach(brief[0], {.tenant = "shop", .customer = "brief", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(brief[0], 1, Nanoseconds{0});
  ring.close(brief[0], Nanoseconds{0});
  while (turn(milliseconds(10)) != &brief[0]) {
  }
  EXPECT_THAT(names(), ::testing::ElementsAre("brief", "steady")) << "it is ahead by its job";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(turn(milliseconds(10)), &steady);
  EXPECT_THAT(names(), ::testing::ElementsAre("steady")) << "the virtual time has passed what it received";

  // Of very many that are ahead, some are forgotten.
  for (int i = 0; i < 5; ++i) {
    ring.attach(brief[i],
                {.tenant = "shop", .customer = "b" + std::to_string(i), .cost_hint = milliseconds(1)},
                nullptr);
    ring.add_jobs(brief[i], 1, Nanoseconds{0});
    ring.close(brief[i], Nanoseconds{0});
  }
  for (int left = 5; left > 0;) left -= turn(milliseconds(100 + left)) == &steady ? 0 : 1;
  EXPECT_EQ(names().size(), 3U) << "two of five";
  EXPECT_EQ(names().back(), "steady");
  EXPECT_EQ(ring.view().snapshot(0, Nanoseconds{0}).tenants.front().queues, 1U);
  ring.detach_all();
  EXPECT_TRUE(ring.view().customers("shop", nullptr, 100, Nanoseconds{0}).empty());
}

TEST_F(FairRingCustomersTest, WhoComesBackStartsWhereItLeft) {
  // Batches of one job, one after another, of a customer that always comes back at once: it is not
  // ahead of the other.
  Batch& steady = enter("shop", "steady", milliseconds(1));
  Nanoseconds received{};
  std::function<void()> again = [&] {
    Batch& next = simulator.submit({.tenant = "shop", .customer = "series"}, 1, always(milliseconds(3)));
    simulator.at(simulator.now() + milliseconds(3), [&, batch = &next] {
      received += batch->received(simulator.now());
      again();
    });
  };
  again();
  simulator.run_for(seconds(3));
  EXPECT_LT(received, steady.received(simulator.now()));
  EXPECT_EQ(received + steady.received(simulator.now()), seconds(3) * kWorkers);
}

TEST_F(FairRingCustomersTest, ViewsOfACustomer) {
  limits["a"] = {.weight = 3, .slots = 9, .start_interval = Nanoseconds(7)};
  Batch& a = enter("shop", "a", milliseconds(1));
  enter("shop", "b", milliseconds(1));
  enter("other", "");
  simulator.run_for(seconds(30));
  FairRing& ring = simulator.ring;
  const auto view = ring.view().customer("shop", "a", simulator.now());
  ASSERT_TRUE(view);
  EXPECT_EQ(view->customer, "a");
  EXPECT_EQ(view->weight, 3U);
  EXPECT_EQ(view->slots, 9U);
  EXPECT_EQ(view->start_interval, Nanoseconds(7));
  EXPECT_EQ(view->queues, 1U);
  EXPECT_EQ(view->queued, ring.view().queue(a.queue, simulator.now()).queued);
  EXPECT_EQ(view->executors, a.running);
  EXPECT_DOUBLE_EQ(view->share, 0.5 * 3 / 4);
  EXPECT_NEAR(view->received, 0.5 * 3 / 4, 0.01);
  EXPECT_NEAR(view->due, 0.5 * 3 / 4, 0.001);
  EXPECT_FALSE(view->at_limit);
  EXPECT_DOUBLE_EQ(ring.view().queue(a.queue, simulator.now()).share, 0.5 * 3 / 4);
  EXPECT_FALSE(ring.view().customer("shop", "c", simulator.now()));
  EXPECT_FALSE(ring.view().customer("nobody", "", simulator.now()));
  const auto nameless = ring.view().customer("other", "", simulator.now());
  ASSERT_TRUE(nameless) << "a tenant without customers";
  EXPECT_DOUBLE_EQ(nameless->share, 0.5);
  EXPECT_NEAR(nameless->received, 0.5, 0.01);

  EXPECT_EQ(ring.view().customers("shop", nullptr, 1, simulator.now()).front().customer, "a");
  const std::string after = "a";
  ASSERT_EQ(ring.view().customers("shop", &after, 5, simulator.now()).size(), 1U);
  EXPECT_EQ(ring.view().customers("shop", &after, 5, simulator.now()).front().customer, "b");
  EXPECT_TRUE(ring.view().customers("other", &after, 5, simulator.now()).empty());
  EXPECT_TRUE(ring.view().customers("nobody", nullptr, 5, simulator.now()).empty());
  const auto tenants = ring.view().snapshot(0, simulator.now()).tenants;
  ASSERT_EQ(tenants.size(), 2U) << "customers are no tenants";
  EXPECT_EQ(tenants[1].queues, 2U);
  EXPECT_NEAR(tenants[1].received, 0.5, 0.01);
}

// A customer that was idle while others were served is shown what it got of what was due to it, not
// of all time.
TEST_F(FairRingCustomersTest, DueCountsTheTimeInWhichACustomerHadSomethingToRun) {
  enter("shop", "steady", milliseconds(1));
  enter("other", "");
  for (int i = 0; i < 40; ++i) {
    simulator.submit({.tenant = "shop", .customer = "now-and-then"}, 50, always(milliseconds(1)));
    simulator.run_for(milliseconds(500));
  }
  simulator.submit({.tenant = "shop", .customer = "now-and-then"}, 1'000, always(milliseconds(1)));
  simulator.run_for(milliseconds(300));
  const auto view = simulator.ring.view().customer("shop", "now-and-then", simulator.now());
  ASSERT_TRUE(view);
  EXPECT_NEAR(view->received / view->due, 1, 0.15);
}

TEST_F(FairRingCustomersTest, QueuesAheadCountTheTurnsOfOtherCustomers) {
  for (int i = 0; i < 10; ++i) enter("shop", "a", milliseconds(1));
  Batch& b = enter("shop", "b", milliseconds(1));
  simulator.run_for(milliseconds(500));
  Batch& last = enter("shop", "c", milliseconds(1));
  (void)last;
  Batch& behind = enter("shop", "a", milliseconds(1));
  // c is new and next, b and a take turns.
  EXPECT_LE(simulator.ring.view().queue(last.queue, simulator.now()).ahead, 2U);
  EXPECT_LE(simulator.ring.view().queue(b.queue, simulator.now()).ahead, 8U);
  const std::uint64_t ahead = simulator.ring.view().queue(behind.queue, simulator.now()).ahead;
  EXPECT_LE(ahead, 30U);
}

TEST_F(FairRingCustomersTest, ClocksThatAreSetBackChangeNothing) {
  std::vector<std::uint64_t> ended[2];
  for (const bool often : {false, true}) {
    FairRing::Options options{.parallelism = 3};
    if (often) options.set_back_at = 5'000'000;
    RingSimulator run(options, 3);
    std::vector<Batch*> batches;
    for (std::uint32_t i = 0; i < 12; ++i) {
      batches.push_back(&run.submit(
          {.tenant = std::to_string(i % 2), .customer = std::to_string(i % 3), .weight = 1 + i % 4}, 1'000,
          [i](std::uint64_t job) { return microseconds(10 + 400 * i + (job * 7919) % 300); }, true));
    }
    for (int round = 0; round < 300; ++round) {
      run.run_for(milliseconds(3));
      run.add(*batches[static_cast<std::size_t>(round) % batches.size()], 10);
    }
    for (Batch* batch : batches) ended[often].push_back(batch->ended);
  }
  EXPECT_EQ(ended[0], ended[1]);
}

}  // namespace
}  // namespace locksley::test
