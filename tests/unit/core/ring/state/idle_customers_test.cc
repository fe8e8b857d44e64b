// Which customers without batches a ring remembers.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <string>

#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"
#include "tests/support/ring_simulator.h"

namespace locksley::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(IdleCustomersTest, ManyCustomersOfAUserDoNotEraseTheDebtsOfAnothers) {
  constexpr int kMost = 4;
  FairRing ring({.parallelism = 100, .most_idle_customers = kMost});
  std::deque<RingQueue> queues;
  const auto enter = [&](const std::string& tenant, const std::string& customer) {
    RingQueue& queue = queues.emplace_back();
    ring.attach(queue, {.tenant = tenant, .customer = customer, .cost_hint = seconds(1)}, nullptr);
    ring.add_jobs(queue, 1, Nanoseconds{0});
    ring.close(queue, Nanoseconds{0});
  };
  // Each user has a job that runs all the time, so that no busy period ends.
  std::deque<Claim> turns;
  for (const std::string tenant : {"small", "large"}) {
    enter(tenant, "steady");
    turns.push_back(*ring.try_claim(Nanoseconds{0}));
  }
  const auto run = [&] {
    const Claim claim = *ring.try_claim(Nanoseconds{0});
    (void)ring.settle(*claim.queue,
                      {.charged = claim.charged, .actual = seconds(1), .executed = claim.range.size()},
                      Nanoseconds{0});
  };
  for (int i = 0; i < kMost + 1; ++i) {
    enter("large", std::to_string(i));
    run();
  }
  enter("small", "ahead");
  run();
  const auto customers = [&](const char* tenant) {
    return ring.view().customers(tenant, nullptr, 100, Nanoseconds{0}).size();
  };
  EXPECT_EQ(customers("small"), 2U) << "the one that runs, and the one that is ahead";
  EXPECT_EQ(customers("large"), kMost) << "the one that runs, and all but one of the most";
  for (const Claim& turn : turns)
    (void)ring.settle(*turn.queue, {.charged = turn.charged, .executed = 1}, Nanoseconds{0});
  ring.detach_all();
}

TEST(IdleCustomersTest, AClaimForgetsSomeOfVeryManyCustomers) {
  constexpr std::size_t kMany = 1000;
  FairRing ring({.quantum = milliseconds(1)});
  std::deque<RingQueue> queues;
  const auto enter = [&](const std::string& customer, std::uint64_t jobs) {
    RingQueue& queue = queues.emplace_back();
    ring.attach(queue, {.tenant = "shop", .customer = customer, .cost_hint = milliseconds(1)}, nullptr);
    ring.add_jobs(queue, jobs, Nanoseconds{0});
    ring.close(queue, Nanoseconds{0});
  };
  const auto run = [&] {
    const Claim claim = *ring.try_claim(Nanoseconds{0});
    (void)ring.settle(*claim.queue,
                      {.charged = claim.charged, .actual = milliseconds(1), .executed = claim.range.size()},
                      Nanoseconds{0});
  };
  const auto customers = [&] {
    return ring.view().customers("shop", nullptr, 2 * kMany, Nanoseconds{0}).size();
  };
  enter("steady", 1'000'000);
  for (std::size_t i = 0; i < kMany; ++i) enter(std::to_string(i), 1);
  for (std::size_t i = 0; i < kMany + 1; ++i) run();
  std::size_t before = customers();
  ASSERT_GT(before, kMany / 2) << "all are ahead by the same";
  std::size_t most = 0;
  for (int i = 0; i < 200 && customers() > 1; ++i) {
    run();
    most = std::max(most, before - customers());
    before = customers();
  }
  EXPECT_EQ(before, 1U) << "only the one that has jobs";
  EXPECT_LE(most, 3 * IdleCustomers::kAtOnce) << "a claim and a settlement";
  ring.detach_all();
}

TEST(IdleCustomersTest, ARateHoldsForBatchesThatComeOneAfterAnother) {
  // Between two batches the customer has nothing in the ring.
  RingSimulator simulator({}, 1);
  FairRing& ring = simulator.ring;
  ring.groups().on_customer([](auto, auto) { return GroupLimits{.start_interval = milliseconds(100)}; });
  std::uint64_t ended = 0;
  RingSimulator::Batch* batch = nullptr;
  const auto submit = [&] {
    batch = &simulator.submit({.tenant = "shop", .customer = "slow"}, 1, always(microseconds(20)));
  };
  submit();
  std::function<void()> look_again = [&] {
    if (batch->ended != 0) {
      ++ended;
      submit();
    }
    simulator.at(simulator.now() + milliseconds(1), look_again);
  };
  look_again();
  simulator.run_for(seconds(10));
  EXPECT_NEAR(static_cast<double>(ended), 100, 2);
}

}  // namespace
}  // namespace locksley::test
