// Gates of a lane, as its owner and external executors use them.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "core/batch/handler.h"
#include "core/lane/external_executor.h"
#include "core/lane/lane.h"
#include "core/lane/lane_gates.h"
#include "core/lane/lane_view.h"

namespace locksley {
namespace {

constexpr std::size_t kAllBytes = ~std::size_t{0};

class LaneGatesTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> submit(GateId gate, std::uint64_t jobs = 10) {
    BatchOptions options;
    options.gate = gate;
    auto batch = std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(100));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  static void run(ExternalExecutor& executor) {
    while (executor.start_job()) executor.end_job(JobStatus::kOk, "x");
    executor.end_turn();
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  Lane lane{"processes", {.quantum = std::chrono::seconds(1), .parallelism = 8}};
};

TEST_F(LaneGatesTest, AnExecutorTakesTurnsOfTheGatesThatItIsGiven) {
  const GateId one = *lane.gates().add({});
  const GateId two = *lane.gates().add({.concurrency = 1});
  const auto first = submit(one);
  const auto second = submit(two);
  const GateSet only_one(one), only_two(two);
  ExternalExecutor executor(lane), other(lane);
  ASSERT_TRUE(executor.begin_turn(1, kAllBytes, &only_two));
  EXPECT_EQ(&executor.batch(), second.get());
  EXPECT_EQ(executor.gate(), two);
  EXPECT_FALSE(lane.hints().has_work(only_two));
  EXPECT_FALSE(other.begin_turn(1, kAllBytes, &only_two));
  ASSERT_TRUE(other.begin_turn(1, kAllBytes, &only_one));
  EXPECT_EQ(&other.batch(), first.get());
  run(executor);
  EXPECT_TRUE(lane.hints().has_work(only_two));
  run(other);
  for (const auto& batch : {first, second}) lane.cancel(*batch, "over");
}

TEST_F(LaneGatesTest, ATurnIsFollowedByOneOfTheGatesThatItIsGiven) {
  const GateId gate = *lane.gates().add({});
  const auto here = submit(0);
  const auto there = submit(gate);
  const GateSet only(gate);
  ResultWriter writer;
  Turn turn(lane, writer);
  ASSERT_TRUE(turn.try_claim(ClaimFilter::kAny, 1, &only));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(&turn.batch(), there.get());
    EXPECT_EQ(turn.gate(), gate);
    turn.begin_measured();
    turn.leave();
    ASSERT_TRUE(turn.settle_and_claim(steady_now(), ClaimFilter::kAny, &only));
  }
  turn.begin_measured();
  turn.leave();
  turn.settle(steady_now());
  for (const auto& batch : {here, there}) lane.cancel(*batch, "over");
}

TEST_F(LaneGatesTest, ChangesOfAGateWakeTheExecutors) {
  int wakes = 0;
  lane.on_work([&] { ++wakes; });
  const GateId gate = *lane.gates().add({.is_on = false});
  const auto batch = submit(gate);
  const int before = wakes;
  ExternalExecutor executor(lane);
  EXPECT_FALSE(executor.begin_turn(1, kAllBytes));
  lane.gates().set_switch(gate, true);
  EXPECT_EQ(wakes, before + 1);
  lane.gates().set_concurrency(gate, 2);
  EXPECT_EQ(wakes, before + 2);
  lane.gates().set_max_running(gate, 3);
  EXPECT_EQ(wakes, before + 3);
  lane.gates().set_remote(gate, true);
  EXPECT_EQ(wakes, before + 4);
  lane.gates().set_hold(gate, false);
  EXPECT_EQ(wakes, before + 5);
  ASSERT_TRUE(executor.begin_turn(1, kAllBytes));
  run(executor);
  lane.cancel(*batch, "over");
}

TEST_F(LaneGatesTest, ABatchGoesToAnotherGateAndStaysThereWhenItIsTriedAgain) {
  const GateId from = *lane.gates().add({});
  const GateId to = *lane.gates().add({});
  const auto batch = submit(from, 2);
  EXPECT_FALSE(lane.gates().remove(from));
  ASSERT_TRUE(lane.hand_over(batch, lane, to));
  EXPECT_EQ(batch->served_as().gate, to);
  EXPECT_EQ(lane.view().batch(*batch).gate, to);
  EXPECT_TRUE(lane.gates().remove(from));
  ExternalExecutor executor(lane);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(executor.begin_turn(1, kAllBytes));
    EXPECT_EQ(executor.gate(), to);
    ASSERT_TRUE(executor.start_job());
    executor.end_job(JobStatus::kError, "x");
    executor.end_turn();
  }
  ASSERT_FALSE(lane.view().batch(*batch).attached);
  EXPECT_EQ(lane.retry_failed(batch), 2U);
  EXPECT_EQ(lane.view().batch(*batch).gate, to);
  lane.cancel(*batch, "over");
}

}  // namespace
}  // namespace locksley
