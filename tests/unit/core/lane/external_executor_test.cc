// An executor without a thread: turns of a lane, handed out job by job by the test itself.
#include "core/lane/external_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/lane/lane_view.h"
#include "tests/support/patchy_payloads.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::AwayPayloads;
using testing::PatchyPayloads;
using testing::Row;
using testing::rows_of;
constexpr std::size_t kAnySize = ~std::size_t{0};

class ExternalExecutorTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> submit(
      std::uint64_t jobs, BatchOptions options = {},
      std::unique_ptr<PayloadSource> payloads = std::make_unique<RangePayloads>(100)) {
    auto batch = std::make_shared<Batch>(std::move(options), handler, std::move(payloads));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  // Starts all that the turn has.
  std::uint64_t start_all() {
    std::uint64_t started = 0;
    while (executor.start_job()) ++started;
    return started;
  }
  void end(std::uint64_t jobs, JobStatus status = JobStatus::kOk) {
    for (std::uint64_t i = 0; i < jobs; ++i) executor.end_job(status, "x");
  }
  // Runs turns of up to ten until nothing is left; how many jobs that were.
  std::uint64_t run_rest() {
    std::uint64_t jobs = 0;
    while (executor.begin_turn(10, kAnySize)) {
      const std::uint64_t started = start_all();
      end(started);
      jobs += started;
      executor.end_turn();
    }
    return jobs;
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  // Turns are of many jobs from the start, however long the test was held up in the one before.
  Lane lane{"processes", {.share = Share::kJobs, .quantum = std::chrono::hours(1)}};
  ExternalExecutor executor{lane};
};

TEST_F(ExternalExecutorTest, NothingToClaimIsNoTurn) {
  EXPECT_FALSE(executor.begin_turn(1, kAnySize));
  EXPECT_FALSE(executor.has_turn());
}

TEST_F(ExternalExecutorTest, JobsComeInOrderAndEndInOrder) {
  const auto batch = submit(3);
  ASSERT_TRUE(executor.begin_turn(1, kAnySize));
  const auto job = executor.start_job();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->index, 0U);
  EXPECT_EQ(job->payload, "100");
  EXPECT_FALSE(executor.start_job()) << "one was all that was asked for";
  EXPECT_EQ(executor.running_jobs(), 1U);
  EXPECT_EQ(batch->status().running, 1U);
  executor.end_job(JobStatus::kCrashed, "why");
  executor.end_turn();
  EXPECT_EQ(batch->status().failed, 1U);
  EXPECT_EQ(run_rest(), 2U);
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(rows_of(*batch),
            (std::vector<Row>{
                {0, JobStatus::kCrashed, "why"}, {1, JobStatus::kOk, "x"}, {2, JobStatus::kOk, "x"}}));
}

TEST_F(ExternalExecutorTest, ATurnHasNoMoreThanWasAskedFor) {
  submit(1000);
  for (const std::uint64_t most : {1U, 2U, 7U, 100U}) {
    ASSERT_TRUE(executor.begin_turn(most, kAnySize));
    const std::uint64_t started = start_all();
    EXPECT_LE(started, most);
    EXPECT_GE(started, 1U);
    end(started);
    executor.end_turn();
  }
  run_rest();
}

TEST_F(ExternalExecutorTest, LargePayloadsMakeSmallTurns) {
  const auto batch =
      submit(50, {}, std::make_unique<StringPayloads>(std::vector<std::string>(50, std::string(1000, 'x'))));
  run_rest();  // so that turns are of many
  const auto large =
      submit(50, {}, std::make_unique<StringPayloads>(std::vector<std::string>(50, std::string(1000, 'x'))));
  while (!large->is_over()) {
    ASSERT_TRUE(executor.begin_turn(50, 2500));
    const std::uint64_t started = start_all();
    EXPECT_LE(started, 3U);
    end(started);
    executor.end_turn();
  }
  EXPECT_EQ(rows_of(*large).size(), 50U);
}

TEST_F(ExternalExecutorTest, WhatEndedCanBeSeenBeforeTheTurnIsOver) {
  const auto batch = submit(1);
  ASSERT_TRUE(executor.begin_turn(1, kAnySize));
  start_all();
  end(1);
  EXPECT_TRUE(rows_of(*batch).empty());
  executor.publish();
  EXPECT_EQ(rows_of(*batch).size(), 1U);
  executor.end_turn();
}

TEST_F(ExternalExecutorTest, WhatDidNotEndGoesBackAndRunsOnceMore) {
  int wakes = 0;
  lane.on_work([&wakes] { ++wakes; });
  const auto batch = submit(5);
  const int before = wakes;
  ASSERT_TRUE(executor.begin_turn(5, kAnySize));
  const std::uint64_t started = start_all();
  ASSERT_GE(started, 1U);
  end(started - 1);
  executor.end_turn();  // the last that was started has not ended
  EXPECT_GT(wakes, before) << "other executors may take it";
  EXPECT_EQ(batch->status().queued, 5 - (started - 1));
  EXPECT_EQ(run_rest(), 5 - (started - 1));
  EXPECT_EQ(batch->status().ok, 5U);
  EXPECT_EQ(rows_of(*batch).size(), 5U);
}

TEST_F(ExternalExecutorTest, AJobsDurationIsThatFromItsStartOrFromTheEndOfTheOneBefore) {
  static constexpr Nanoseconds kLong = std::chrono::milliseconds(2);
  const auto spin = [] {
    for (const Nanoseconds end = steady_now() + kLong; steady_now() < end;) {
    }
  };
  // Ends the oldest job; its duration in seconds.
  const auto end_one = [this] {
    const double before = handler.stats.job_duration.snapshot().sum_seconds;
    end(1);
    return handler.stats.job_duration.snapshot().sum_seconds - before;
  };
  const auto seconds_since = [](Nanoseconds then) {
    return std::chrono::duration<double>(steady_now() - then).count();
  };
  submit(4);
  ASSERT_TRUE(executor.begin_turn(1, kAnySize));
  ASSERT_EQ(start_all(), 1U);
  end(1);
  executor.end_turn();
  ASSERT_TRUE(executor.begin_turn(3, kAnySize));
  spin();
  const Nanoseconds started = steady_now();
  ASSERT_EQ(start_all(), 3U);
  const double first = end_one();
  EXPECT_LE(first, seconds_since(started)) << "it had not started before";
  spin();
  const Nanoseconds ended = steady_now();
  EXPECT_GE(end_one(), 0.0019);
  const double third = end_one();
  EXPECT_LE(third, seconds_since(ended)) << "it began when the one before it ended";
  executor.end_turn();
}

TEST_F(ExternalExecutorTest, ACancelledBatchStartsNoMore) {
  const auto batch = submit(5);
  ASSERT_TRUE(executor.begin_turn(5, kAnySize));
  ASSERT_TRUE(executor.start_job());
  bool was_told = false;
  lane.on_stop([&was_told] { was_told = true; });
  lane.cancel(*batch, "no");
  EXPECT_TRUE(was_told);
  EXPECT_TRUE(executor.batch().is_stopping());
  EXPECT_FALSE(executor.start_job());
  EXPECT_EQ(executor.running_jobs(), 1U);
  executor.end_turn();  // given back: recorded as cancelled
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().cancelled, 5U);
  EXPECT_FALSE(executor.begin_turn(1, kAnySize));
}

TEST_F(ExternalExecutorTest, APausedBatchStartsNoMoreUntilItGoesOn) {
  const auto batch = submit(5);
  ASSERT_TRUE(executor.begin_turn(5, kAnySize));
  ASSERT_TRUE(executor.start_job());
  lane.pause(*batch);
  EXPECT_FALSE(executor.start_job());
  end(1);
  executor.end_turn();
  EXPECT_FALSE(executor.begin_turn(1, kAnySize));
  lane.resume(*batch);
  EXPECT_EQ(run_rest(), 4U);
}

// Into another lane, and back, with all that has not run; not while a job runs.
TEST_F(ExternalExecutorTest, ABatchGoesOnInAnotherLane) {
  Lane other("other", {.share = Share::kJobs, .quantum = std::chrono::seconds(1)});
  const auto batch = submit(20);
  ASSERT_TRUE(executor.begin_turn(3, kAnySize));
  ASSERT_TRUE(executor.start_job());
  EXPECT_TRUE(lane.view().has_claims(*batch));
  EXPECT_FALSE(lane.hand_over(batch, other));
  executor.end_job(JobStatus::kOk, "x");
  executor.end_turn();
  EXPECT_FALSE(lane.view().has_claims(*batch));
  ASSERT_TRUE(lane.hand_over(batch, other));
  EXPECT_FALSE(executor.begin_turn(10, kAnySize));
  EXPECT_EQ(other.view().batch(*batch).queued, 19u);
  ExternalExecutor there(other);
  ASSERT_TRUE(there.begin_turn(5, kAnySize));
  while (there.start_job()) there.end_job(JobStatus::kOk, "y");
  there.end_turn();
  ASSERT_TRUE(other.hand_over(batch, lane));
  EXPECT_GT(run_rest(), 0u);
  EXPECT_TRUE(batch->is_over());
  std::vector<std::uint64_t> indexes;
  for (const Row& row : rows_of(*batch)) indexes.push_back(row.index);
  std::ranges::sort(indexes);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(indexes.at(i), i);
  EXPECT_EQ(indexes.size(), 20u);
}

TEST_F(ExternalExecutorTest, AHeldBatchIsHeldInTheOtherLaneToo) {
  Lane other("other", {});
  const auto batch = submit(2);
  lane.hold(*batch, Hold::kHandler);
  ASSERT_TRUE(lane.hand_over(batch, other));
  ExternalExecutor there(other);
  EXPECT_FALSE(there.begin_turn(1, kAnySize));
  other.release(*batch, Hold::kHandler);
  EXPECT_TRUE(there.begin_turn(1, kAnySize));
  there.end_turn();
  other.cancel(*batch, "over");
}

TEST_F(ExternalExecutorTest, AnOpenBatchTakesJobsInItsNewLane) {
  Lane other("other", {});
  const auto batch = std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(100));
  lane.submit(batch, 0, /*open=*/true);
  ASSERT_TRUE(lane.hand_over(batch, other));
  EXPECT_TRUE(other.add_jobs(*batch, 1));
  other.close(*batch);
  ExternalExecutor there(other);
  ASSERT_TRUE(there.begin_turn(1, kAnySize));
  ASSERT_TRUE(there.start_job());
  there.end_job(JobStatus::kOk, "");
  there.end_turn();
  EXPECT_TRUE(batch->is_over());
  // Over, and in no ring: there is nothing to hand over.
  EXPECT_TRUE(other.hand_over(batch, lane));
}

// A journal that never has room.
class FullJournal final : public BatchJournal {
 public:
  void record(BatchStep) override { ++steps; }
  void wait_for_room() override { FAIL() << "an external executor's thread waits for the journal"; }
  std::uint64_t read_rows(std::uint64_t, std::uint64_t,
                          const std::function<bool(const ResultRow&)>&) override {
    return 0;
  }
  int steps = 0;
};

TEST_F(ExternalExecutorTest, NeitherAPublicationNorTheEndOfATurnWaitsForTheJournal) {
  auto journal = std::make_unique<FullJournal>();
  const FullJournal& full = *journal;
  auto batch = std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(100), nullptr,
                                       std::move(journal));
  lane.submit(batch, 2, /*open=*/false);
  ASSERT_TRUE(executor.begin_turn(1, kAnySize));
  EXPECT_EQ(start_all(), 1u);
  end(1);
  executor.publish();
  EXPECT_EQ(full.steps, 1);
  executor.end_turn();
  ASSERT_TRUE(executor.begin_turn(1, kAnySize));
  EXPECT_EQ(start_all(), 1u);
  end(1);
  executor.end_turn();
  EXPECT_TRUE(batch->is_over());
}

TEST_F(ExternalExecutorTest, AnOutputThatIsLongerThanItsBatchAllowsIsAnError) {
  BatchOptions options;
  options.max_output_bytes = 3;
  const auto batch = submit(2, std::move(options));
  for (const char* const output : {"abc", "abcd"}) {
    ASSERT_TRUE(executor.begin_turn(1, kAnySize));
    start_all();
    executor.end_job(JobStatus::kOk, output);
    executor.end_turn();
  }
  const auto rows = rows_of(*batch);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].status, JobStatus::kOk);
  EXPECT_EQ(rows[1].status, JobStatus::kError);
  EXPECT_EQ(rows[1].output, "the output has 4 bytes; a result has at most 3");
}

TEST_F(ExternalExecutorTest, TooManyFailuresCancelTheRest) {
  BatchOptions options;
  options.max_fails = 2;
  const auto batch = submit(100, options);
  int turns = 0;
  while (executor.begin_turn(1, kAnySize)) {
    ASSERT_LT(++turns, 10);
    if (executor.start_job()) executor.end_job(JobStatus::kError, "no");
    executor.end_turn();
  }
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().failed, 2U);
  EXPECT_EQ(batch->status().cancelled, 98U);
}

TEST_F(ExternalExecutorTest, APayloadThatCannotBeReadIsTheErrorOfItsJobAlone) {
  for (const std::uint64_t bad : {0U, 1U, 4U}) {
    const auto batch = submit(5, {}, std::make_unique<PatchyPayloads>(bad));
    EXPECT_EQ(run_rest(), 4U);
    EXPECT_TRUE(batch->is_over());
    const BatchStatus status = batch->status();
    EXPECT_EQ(status.ok, 4U);
    EXPECT_EQ(status.failed, 1U);
    for (const Row& row : rows_of(*batch)) {
      if (row.index != bad) continue;
      EXPECT_EQ(row.output, "cannot read the payload: lost");
    }
  }
}

TEST_F(ExternalExecutorTest, ABatchPausesWhileItsPayloadsCannotBeRead) {
  std::atomic<std::uint64_t> first_away = 0;
  const auto batch = submit(5, {}, std::make_unique<AwayPayloads>(first_away));
  EXPECT_FALSE(executor.begin_turn(10, kAnySize));
  EXPECT_EQ(batch->status().state, BatchState::kQueued) << "no job of it has begun";
  EXPECT_EQ(lane.view().batch(*batch).backoff, Backoff::kNoPayloads);
  submit(3);
  EXPECT_EQ(run_rest(), 3U) << "other batches are served";
  first_away = 2;
  lane.end_waits(steady_now() + std::chrono::seconds(1));
  EXPECT_EQ(run_rest(), 2U);
  first_away = 5;
  lane.end_waits(steady_now() + std::chrono::seconds(1));
  EXPECT_EQ(run_rest(), 3U);
  EXPECT_EQ(batch->status().ok, 5U);
}

TEST_F(ExternalExecutorTest, TwoExecutorsShareABatch) {
  const auto batch = submit(2);
  ExternalExecutor other(lane);
  ASSERT_TRUE(executor.begin_turn(1, kAnySize));
  ASSERT_TRUE(other.begin_turn(1, kAnySize));
  EXPECT_EQ(executor.start_job()->index, 0U);
  EXPECT_EQ(other.start_job()->index, 1U);
  other.end_job(JobStatus::kOk, "");
  other.end_turn();
  EXPECT_EQ(batch->status().ok, 1U);
  executor.end_job(JobStatus::kOk, "");
  executor.end_turn();
  EXPECT_TRUE(batch->is_over());
}

TEST_F(ExternalExecutorTest, TurnsAreSharedBetweenBatches) {
  const auto large = submit(10'000);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(executor.begin_turn(1, kAnySize));
    start_all();
    end(1);
    executor.end_turn();
  }
  const auto small = submit(3);
  std::uint64_t turns = 0;
  for (; !small->is_over(); ++turns) {
    ASSERT_TRUE(executor.begin_turn(1, kAnySize));
    start_all();
    end(1);
    executor.end_turn();
  }
  EXPECT_LE(turns, 8U);
  lane.cancel(*large, "");
}

}  // namespace
}  // namespace locksley
