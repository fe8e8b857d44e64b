// Caps and rates of users, customers and batches, kept by the pool's workers; and who wakes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "core/lane/external_executor.h"
#include "core/lane/lane_groups.h"
#include "core/lane/lane_view.h"
#include "core/pool/pool.h"
#include "tests/support/gate.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::Gate;
using testing::PoolFixture;
using testing::wait_until;
using namespace std::chrono_literals;

class PoolLimitsTest : public PoolFixture {
 protected:
  PoolLimitsTest() : PoolFixture(4) {}

  // Jobs that count how many of them run at once.
  Handler& counting() {
    return handler([this](JobContext&, std::string_view) {
      const int running = ++now;
      for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
      }
      std::this_thread::sleep_for(50us);
      --now;
    });
  }
  static BatchOptions of(const std::string& customer) {
    BatchOptions options;
    options.tenant = "shop";
    options.customer = customer;
    return options;
  }

  std::atomic<int> now{0};
  std::atomic<int> most{0};
};

TEST_F(PoolLimitsTest, ACustomerHasNoMoreWorkersThanItMayHave) {
  lane.groups().on_customer([](std::string_view, std::string_view) { return GroupLimits{.slots = 1}; });
  Handler& run = counting();
  std::vector<std::shared_ptr<Batch>> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(submit_range(run, 300, of("capped")));
  for (const auto& batch : batches) wait_over(*batch);
  EXPECT_EQ(most, 1) << "no part of a claim was stolen";
}

TEST_F(PoolLimitsTest, AUserHasNoMoreWorkersThanItMayHave) {
  lane.groups().set_tenant_limits("shop", {.slots = 2});
  Handler& run = counting();
  std::vector<std::shared_ptr<Batch>> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(submit_range(run, 300, of(i == 0 ? "" : std::to_string(i))));
  for (const auto& batch : batches) wait_over(*batch);
  EXPECT_LE(most, 2);
}

TEST_F(PoolLimitsTest, SlotsOfABatchAreChangedWhileItRuns) {
  Gate gate;
  Gate rest;  // what begins after the change waits here until only one worker is left
  std::atomic<int> passed{0};
  Handler& run = handler([&](JobContext&, std::string_view) {
    if (++passed <= 4) return gate.pass();
    rest.pass();
    const int running = ++now;
    for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
    }
    std::this_thread::sleep_for(50us);
    --now;
  });
  BatchOptions options;
  options.slots = 4;
  auto batch = submit_range(run, 400, options);
  gate.await(4);
  EXPECT_EQ(batch->status().slots, 4u);
  lane.set_slots(*batch, 1);
  EXPECT_EQ(batch->status().slots, 1u);
  gate.open();
  wait_until([&] { return batch->status().running <= 1; }, "the other workers have left");
  rest.open();
  wait_over(*batch);
  EXPECT_EQ(most, 1);
  EXPECT_EQ(batch->options().slots, 4u) << "as it was submitted";

  // A cap that is lifted lets the others in at once.
  Gate other;
  Handler& wait = handler([&](JobContext&, std::string_view) { other.pass(); });
  options.slots = 1;
  batch = submit_range(wait, 4, options);
  other.await(1);
  lane.set_slots(*batch, 0);
  other.await(4);
  other.open();
  wait_over(*batch);
}

// Nothing but the rate's end can wake a worker here: all of them are parked.
TEST_F(PoolLimitsTest, WorkersAreWokenWhenARateAdmitsAgain) {
  static constexpr auto kInterval = 15ms;
  lane.groups().on_customer(
      [](std::string_view, std::string_view) { return GroupLimits{.start_interval = kInterval}; });
  const auto began = std::chrono::steady_clock::now();
  auto batch = submit_range(handler([](JobContext&, std::string_view) {}), 20, of("slow"));
  wait_over(*batch);
  EXPECT_GE(std::chrono::steady_clock::now() - began, 19 * kInterval);
  EXPECT_FALSE(lane.hints().has_work());
}

TEST_F(PoolLimitsTest, ARateThatIsLiftedWakesTheWorkersAtOnce) {
  lane.groups().set_tenant_limits("shop", {.start_interval = std::chrono::hours(1)});
  auto batch = submit_range(handler([](JobContext&, std::string_view) {}), 100, of(""));
  wait_until([&] { return batch->status().ok == 1; }, "the first job has ended");
  EXPECT_TRUE(lane.view().batch(*batch).tenant_at_limit);
  lane.groups().set_tenant_limits("shop", {});
  wait_over(*batch);
}

// A pool that is started again keeps the timer of what waits already.
TEST_F(PoolLimitsTest, AWaitOutlivesTheWorkers) {
  lane.groups().set_tenant_limits("shop", {.start_interval = 20ms});
  auto batch = submit_range(handler([](JobContext&, std::string_view) {}), 5, of(""));
  wait_until([&] { return batch->status().ok >= 1; }, "a job has ended");
  pool.stop();
  pool.start(1);
  wait_over(*batch);
}

// The lane had told the monitor of the first pool of the wait.
TEST_F(PoolLimitsTest, AWaitOutlivesThePool) {
  Lane own("own", {});
  own.groups().set_tenant_limits("shop", {.start_interval = 20ms});
  Handler& run = handler([](JobContext&, std::string_view) {});
  const auto batch = make(run, std::make_unique<RangePayloads>(0), of(""));
  {
    Pool first(own);
    first.start(1);
    own.submit(batch, 10'000, /*open=*/false);
    wait_until([&] { return batch->status().ok >= 3; }, "jobs start by the rate");
  }
  const std::uint64_t before = batch->status().ok;
  ASSERT_LT(before, 10'000u);
  {
    Pool second(own);
    second.start(1);
    wait_until([&] { return batch->status().ok >= before + 3; }, "the second pool goes on by the rate");
  }
  own.cancel(*batch, "enough");
}

class LaneLimitsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> submit(std::string customer, std::uint64_t jobs = 10) {
    BatchOptions options;
    options.tenant = "shop";
    options.customer = std::move(customer);
    auto batch = std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(100));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  Lane lane{"processes", {.parallelism = 8}};
};

TEST_F(LaneLimitsTest, ChangesOfLimitsAndNewWaitsTellTheOwner) {
  int wakes = 0, waits = 0;
  lane.on_work([&] { ++wakes; });
  lane.on_wait([&] { ++waits; });
  const auto batch = submit("a");
  EXPECT_EQ(lane.view().customer("shop", "a")->queued, 10u);
  EXPECT_EQ(lane.view().customers("shop", nullptr, 10).size(), 1u);
  wakes = 0;
  lane.groups().set_customer_limits("shop", "a", {.start_interval = std::chrono::hours(1)});
  lane.groups().set_tenant_limits("shop", {.slots = 3});
  lane.set_slots(*batch, 2);
  EXPECT_EQ(wakes, 3);
  EXPECT_EQ(waits, 0) << "it may start one";
  ExternalExecutor executor(lane);
  ASSERT_TRUE(executor.begin_turn(10, ~std::size_t{0}));
  EXPECT_EQ(waits, 1);
  ASSERT_TRUE(executor.start_job());
  EXPECT_FALSE(executor.start_job()) << "one";
  executor.end_job(JobStatus::kOk, "");
  executor.end_turn();
  EXPECT_FALSE(executor.begin_turn(10, ~std::size_t{0}));
  const Nanoseconds now = steady_now();
  const auto next = lane.end_waits(now);
  ASSERT_TRUE(next);
  EXPECT_GT(*next, now + std::chrono::minutes(59));
  EXPECT_EQ(lane.end_waits(*next), std::nullopt);
  EXPECT_TRUE(lane.hints().has_work());
  EXPECT_EQ(waits, 1);
  lane.cancel(*batch, "over");
}

TEST_F(LaneLimitsTest, ABatchThatComesBackHasTheSlotsThatWereSetLast) {
  const auto batch = submit("a", 1);
  lane.set_slots(*batch, 3);
  Lane other("other", {});
  ASSERT_TRUE(lane.hand_over(batch, other));
  EXPECT_EQ(other.view().customer("shop", "a")->queues, 1u);
  EXPECT_EQ(lane.view().customer("shop", "a"), std::nullopt);
  ExternalExecutor executor(other);
  ASSERT_TRUE(executor.begin_turn(1, ~std::size_t{0}));
  EXPECT_EQ(batch->status().slots, 3u);
  executor.end_turn();
  other.cancel(*batch, "over");
}

}  // namespace
}  // namespace locksley
