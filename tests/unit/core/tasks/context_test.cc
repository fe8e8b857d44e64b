// What a handler can ask and do while it runs: its place, its output, and whether it should stop.
#include "core/tasks/context.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/pool/pool.h"
#include "core/tasks/parallel_for.h"
#include "tests/support/gate.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;
using testing::Gate;
using testing::PoolFixture;
using testing::Row;
using testing::rows_of;
using ::testing::UnorderedElementsAre;
using testing::wait_until;
using namespace std::chrono_literals;

class ContextTest : public PoolFixture {};

TEST_F(ContextTest, AJobKnowsItsBatchAndItsPlace) {
  BatchOptions options;
  options.id = "b-7";
  options.tenant = "alice";
  options.trace = "00-aa-bb-01";
  Handler& run = handler([](JobContext& context, std::string_view payload) {
    context.write(std::string(context.batch_id()) + " " + std::string(context.tenant()) + " " +
                  std::string(context.trace()) + " " + std::to_string(context.index()) + " " +
                  std::to_string(context.attempt()) + " " + std::string(payload));
  });
  auto batch = submit_range(run, 1, options);
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{0, JobStatus::kOk, "b-7 alice 00-aa-bb-01 0 1 0"}));
}

TEST_F(ContextTest, AnOutputIsWrittenInPieces) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    context.write("one ");
    std::ranges::copy(std::string_view("two "), context.write_space(4));
    context.write("");
    context.write("three");
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{0, JobStatus::kOk, "one two three"}));
}

TEST_F(ContextTest, AJobWhoseOutputGetsTooLongFailsAtOnceAndNotAtItsEnd) {
  std::atomic<int> writes{0};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    for (; writes < 1000; ++writes) context.write(std::string(64 * 1024, 'x'));
  });
  BatchOptions options;
  options.max_output_bytes = 100'000;
  auto batch = submit_range(run, 1, options);
  wait_over(*batch);
  EXPECT_LE(writes.load(), 4) << "the buffer has 128 KiB at first";
  const std::vector<Row> rows = rows_of(*batch);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].status, JobStatus::kError);
  EXPECT_TRUE(rows[0].output.ends_with(" bytes; a result has at most 100000")) << rows[0].output;
}

TEST_F(ContextTest, AFailureReplacesTheOutputAndTheLastOneCounts) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    context.write("output");
    context.fail("first");
    context.fail("second");
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{0, JobStatus::kError, "second"}));
}

TEST_F(ContextTest, TheTextOfAFailureIsCutToTheLimitOfOutputsButHasSomeLinesAlways) {
  const std::string why = "cannot open /data/input.csv: no such file";
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.index() == 0) throw std::runtime_error(why);
    context.fail(std::string(200'000, 'x'));
  });
  for (const std::uint64_t most : {16U, 3000U}) {
    BatchOptions options;
    options.max_output_bytes = most;
    auto batch = submit_range(run, 2, options);
    wait_over(*batch);
    EXPECT_THAT(rows_of(*batch),
                UnorderedElementsAre(Row{0, JobStatus::kError, why},
                                     Row{1, JobStatus::kError, std::string(most == 16 ? 1024 : most, 'x')}));
  }
}

TEST_F(ContextTest, GivingUpUnaskedChangesNothing) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    EXPECT_EQ(context.stop_reason(), StopReason::kNone);
    EXPECT_FALSE(context.should_stop());
    context.write("output");
    context.give_up();
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{0, JobStatus::kOk, "output"}));
}

TEST_F(ContextTest, ACancelledJobThatGivesUpIsCancelled) {
  Gate gate;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    context.write("output");
    gate.pass();
    EXPECT_EQ(context.stop_reason(), StopReason::kCancelled);
    context.give_up();
  });
  auto batch = submit_range(run, 1);
  gate.await(1);
  lane.cancel(*batch, "no");
  gate.open();
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{0, JobStatus::kCancelled, "cancelled"}));
}

TEST_F(ContextTest, ASleepLastsAsLongAsItWasToldUnlessTheJobShouldStop) {
  Gate gate;
  std::atomic<bool> sleeps{false};
  Nanoseconds slept{};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    const Nanoseconds began = steady_now();
    context.sleep_for(12ms);
    slept = steady_now() - began;
    sleeps = true;
    context.sleep_for(1h);
    context.give_up();
  });
  auto batch = submit_range(run, 1);
  wait_until([&] { return sleeps.load(); }, "the job sleeps for an hour");
  EXPECT_GE(slept, 12ms);
  lane.cancel(*batch, "no");
  wait_over(*batch);
  EXPECT_EQ(batch->status().cancelled, 1u);
}

// ---- Loops ----

TEST_F(ContextTest, TheLongestSleepLastsUntilTheJobShouldStop) {
  std::atomic<bool> slept{false};
  std::atomic<bool> was_stopped{false};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    context.sleep_for(Nanoseconds::max());
    was_stopped = context.should_stop();
    slept = true;
  });
  const auto batch = submit_range(run, 1);
  wait_until([&] { return batch->status().running == 1 || slept; }, "the job runs");
  lane.cancel(*batch, "enough");
  wait_over(*batch);
  EXPECT_TRUE(was_stopped);
}

TEST_F(ContextTest, TheLongestTimeLimitIsNone) {
  Handler& run = handler([](JobContext& context, std::string_view) { EXPECT_FALSE(context.should_stop()); });
  BatchOptions options;
  options.timeout = std::chrono::milliseconds::max();
  const auto batch = submit_range(run, 1, options);
  wait_over(*batch);
  EXPECT_EQ(batch->status().ok, 1u);
}

TEST_F(ContextTest, PiecesOfALoopAreAtMostAsLongAsTheirGrain) {
  std::atomic<std::uint64_t> longest{0};
  std::atomic<std::uint64_t> sum{0};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    context.parallel_for(
        0, 1000,
        [&](IndexRange piece) {
          sum += piece.size();
          for (std::uint64_t seen = longest; piece.size() > seen;) {
            if (longest.compare_exchange_weak(seen, piece.size())) break;
          }
        },
        7);
  });
  wait_over(*submit_range(run, 1));
  EXPECT_EQ(sum, 1000u);
  EXPECT_EQ(longest, 7u);
}

TEST_F(ContextTest, ALoopOfNothingOrBackwardsRunsNothing) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    context.parallel_for(5, 5, [](std::uint64_t) { ADD_FAILURE(); });
    context.parallel_for(6, 5, [](std::uint64_t) { ADD_FAILURE(); });
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  EXPECT_EQ(batch->status().ok, 1u);
}

class ThreeWorkersTest : public PoolFixture {
 protected:
  ThreeWorkersTest() : PoolFixture(3) {}
};

// As many indexes as workers, and none returns until all have begun: each worker must take one.
TEST_F(ThreeWorkersTest, EveryFreeWorkerTakesPartInALoop) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> begun{0};
    Handler& run = handler([&](JobContext& context, std::string_view) {
      context.parallel_for(
          0, 3,
          [&](std::uint64_t) {
            ++begun;
            wait_until([&] { return begun == 3; }, "all three workers take part");
          },
          1);
    });
    wait_over(*submit_range(run, 1));
    EXPECT_EQ(begun, 3);
  }
}

}  // namespace
}  // namespace locksley
