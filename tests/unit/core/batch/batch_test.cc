// The record of a batch by itself: what its executors, its observer, its journal and its readers
// see.
#include "core/batch/batch.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/base/index_ranges.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/batch_failures.h"
#include "core/batch/batch_results.h"
#include "tests/support/batch_fixture.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Row;
using testing::rows_of;

using BatchTest = testing::BatchFixture;

TEST_F(BatchTest, EachStateHasTheNameOfTheWire) {
  EXPECT_EQ(to_string(BatchState::kOpen), "open");
  EXPECT_EQ(to_string(BatchState::kQueued), "queued");
  EXPECT_EQ(to_string(BatchState::kRunning), "running");
  EXPECT_EQ(to_string(BatchState::kDone), "done");
  EXPECT_EQ(to_string(BatchState::kCancelled), "cancelled");
}

TEST_F(BatchTest, ABatchIsOpenThenQueuedThenRunningThenDone) {
  const auto batch = make();
  EXPECT_EQ(batch->jobs_added(2), 0u);
  EXPECT_EQ(batch->status().state, BatchState::kOpen);
  batch->close();
  EXPECT_EQ(batch->jobs_added(1), std::nullopt);
  EXPECT_EQ(batch->status().state, BatchState::kQueued);
  batch->executor_joined();
  EXPECT_EQ(batch->status().state, BatchState::kRunning);
  EXPECT_GE(batch->status().started_at, batch->status().submitted_at);
  EXPECT_FALSE(publish(*batch, {{0, JobStatus::kOk, "a"}, {1, JobStatus::kOk, "b"}}));
  EXPECT_EQ(batch->status().state, BatchState::kDone);
  EXPECT_GE(batch->status().finished_at, batch->status().started_at);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(BatchTest, NoMoreJobsRunThanThereAreExecutorsOrJobsLeft) {
  const auto batch = make();
  batch->jobs_added(3);
  batch->close();
  EXPECT_EQ(batch->status().queued, 3u);
  batch->executor_joined();
  EXPECT_EQ(batch->status().running, 1u);
  EXPECT_EQ(batch->status().queued, 2u);
  batch->executor_joined();
  publish(*batch, {{0, JobStatus::kOk, ""}, {1, JobStatus::kError, ""}});
  EXPECT_EQ(batch->status().running, 1u);
  EXPECT_EQ(batch->status().queued, 0u);
  batch->executor_left();
  batch->executor_left();
  EXPECT_EQ(batch->status().running, 0u);
  EXPECT_EQ(batch->status().queued, 1u);
}

TEST_F(BatchTest, TheObserverIsToldOfChangesAndOfNothingElse) {
  const auto batch = make();
  batch->jobs_added(4);
  EXPECT_EQ(observer.take(), 0);
  batch->executor_joined();
  EXPECT_EQ(observer.take(), 1) << "it has started";
  batch->executor_joined();
  batch->executor_left();
  EXPECT_EQ(observer.take(), 0);
  batch->set_hold(Hold::kCommand);
  batch->clear_hold(Hold::kCommand);
  EXPECT_EQ(observer.take(), 0) << "it is not over by that";
  publish(*batch, {{0, JobStatus::kOk, ""}});
  EXPECT_EQ(observer.take(), 1);
  publish(*batch, {{1, JobStatus::kError, ""}});
  EXPECT_EQ(observer.take(), 1);
  batch->jobs_dropped({{IndexRange{2, 3}}});
  EXPECT_EQ(observer.take(), 1);
  batch->jobs_dropped({});
  EXPECT_EQ(observer.take(), 0) << "nothing was dropped";
  batch->close();
  EXPECT_EQ(observer.take(), 0) << "a job is left";
  batch->jobs_dropped({{IndexRange{3, 4}}});
  EXPECT_EQ(observer.take(), 1);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(BatchTest, TheObserverIsToldOfAnEndWithoutJobs) {
  const auto closed = make();
  closed->close();
  EXPECT_EQ(observer.take(), 1);
  const auto held = make();
  held->set_hold(Hold::kDelay);
  held->close();
  EXPECT_EQ(observer.take(), 0);
  held->clear_hold(Hold::kDelay);
  EXPECT_EQ(observer.take(), 1);
  const auto withdrawn = make();
  withdrawn->jobs_added(2);
  withdrawn->close();
  EXPECT_EQ(observer.take(), 0);
  withdrawn->jobs_withdrawn(1);
  EXPECT_EQ(observer.take(), 0);
  withdrawn->jobs_withdrawn(1);
  EXPECT_EQ(observer.take(), 1);
  EXPECT_TRUE(withdrawn->is_over());
}

TEST_F(BatchTest, WaitAndDurationAreObservedOnceForEachBatch) {
  const auto batch = make();
  batch->jobs_added(2);
  batch->close();
  EXPECT_EQ(observations(handler.stats.batch_wait), 0u);
  batch->executor_joined();
  batch->executor_joined();
  EXPECT_EQ(observations(handler.stats.batch_wait), 1u);
  publish(*batch, {{0, JobStatus::kOk, ""}});
  EXPECT_EQ(observations(handler.stats.batch_duration), 0u);
  publish(*batch, {{1, JobStatus::kOk, ""}});
  EXPECT_EQ(observations(handler.stats.batch_duration), 1u);
  const double sum =
      handler.stats.batch_wait.snapshot().sum_seconds + handler.stats.batch_duration.snapshot().sum_seconds;
  EXPECT_LT(sum, 60) << "both are times since the submission";
}

TEST_F(BatchTest, TheHandlersCountersAreThoseOfItsJobs) {
  const auto batch = make();
  batch->jobs_added(6);
  publish(*batch, {{0, JobStatus::kOk, ""}, {1, JobStatus::kOk, ""}, {2, JobStatus::kTimeout, ""}});
  batch->jobs_dropped({{IndexRange{3, 6}}});
  const auto count = [this](JobStatus status) {
    return handler.stats.jobs[static_cast<std::size_t>(status)].load();
  };
  EXPECT_EQ(count(JobStatus::kOk), 2u);
  EXPECT_EQ(count(JobStatus::kTimeout), 1u);
  EXPECT_EQ(count(JobStatus::kCancelled), 3u);
  EXPECT_EQ(count(JobStatus::kError), 0u);
}

TEST_F(BatchTest, TheFailureThatReachesTheLimitIsReported) {
  BatchOptions options;
  options.max_fails = 2;
  const auto batch = make(options);
  batch->jobs_added(5);
  EXPECT_FALSE(publish(*batch, {{0, JobStatus::kError, ""}, {1, JobStatus::kOk, ""}}));
  EXPECT_TRUE(publish(*batch, {{2, JobStatus::kCrashed, ""}}));
  batch->stop("enough");
  EXPECT_FALSE(publish(*batch, {{3, JobStatus::kError, ""}})) << "it is cancelled already";
}

TEST_F(BatchTest, WithoutALimitNoFailureIsReported) {
  const auto batch = make();
  batch->jobs_added(2);
  EXPECT_FALSE(publish(*batch, {{0, JobStatus::kOk, ""}}));
  EXPECT_FALSE(publish(*batch, {{1, JobStatus::kError, ""}}));
}

TEST_F(BatchTest, AnAttemptThatFailsIsToldWithItsOutputAndLeavesNoResult) {
  BatchOptions options;
  options.retries = 1;
  const auto batch = make(options);
  batch->jobs_added(3);
  publish(*batch,
          {{0, JobStatus::kError, "no luck"}, {1, JobStatus::kOk, "good"}, {2, JobStatus::kTimeout, ""}});
  EXPECT_THAT(observer.attempts,
              ElementsAre(Row{0, JobStatus::kError, "no luck"}, Row{2, JobStatus::kTimeout, ""}));
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{1, JobStatus::kOk, "good"}));
  EXPECT_EQ(batch->status().failed, 0u);
  EXPECT_EQ(batch->status().waiting, 2u);
  EXPECT_EQ(batch->status().retried, 2u);
  EXPECT_THAT(batch->take_due_retries(Nanoseconds::max()), ElementsAre(IndexRange{0, 1}, IndexRange{2, 3}));
  publish(*batch, {{0, JobStatus::kError, "again"}});
  EXPECT_EQ(observer.attempts.size(), 2u) << "it was the last";
  EXPECT_EQ(batch->status().failed, 1u);
  EXPECT_THAT(rows_of(*batch),
              ElementsAre(Row{1, JobStatus::kOk, "good"}, Row{0, JobStatus::kError, "again"}));
}

TEST_F(BatchTest, TheAttemptsOfAJobThatEndedWellAreForgotten) {
  BatchOptions options;
  options.retries = 1;
  const auto batch = make(options);
  batch->jobs_added(2);
  publish(*batch, {{0, JobStatus::kError, ""}, {1, JobStatus::kError, ""}});
  EXPECT_EQ(batch->attempts().of(0), 2u);
  batch->take_due_retries(Nanoseconds::max());
  publish(*batch, {{0, JobStatus::kOk, ""}, {1, JobStatus::kError, ""}});
  EXPECT_EQ(batch->attempts().of(0), 1u);
  EXPECT_EQ(batch->attempts().of(1), 2u) << "RETRY may queue it again";
}

TEST_F(BatchTest, StopSaysHowManyJobsWillNotRun) {
  const auto batch = make();
  batch->jobs_added(10);
  batch->executor_joined();
  publish(*batch, {{0, JobStatus::kOk, ""}, {1, JobStatus::kOk, ""}});
  EXPECT_FALSE(batch->is_stopping());
  EXPECT_EQ(batch->stop("first"), 7u) << "two have ended, and one runs";
  EXPECT_TRUE(batch->is_stopping());
  EXPECT_EQ(batch->stop("second"), 0u);
  batch->close();
  batch->jobs_dropped({{IndexRange{2, 10}}});
  EXPECT_EQ(rows_of(*batch).back(), (Row{9, JobStatus::kCancelled, "first"}));
  EXPECT_EQ(batch->status().state, BatchState::kCancelled);
  EXPECT_EQ(batch->status().cancelled, 8u);
}

TEST_F(BatchTest, StoppingStopsRunningJobsUnlessTheyMayGoOn) {
  const auto batch = make();
  batch->jobs_added(2);
  batch->executor_joined();
  EXPECT_EQ(batch->stop("deadline", RunningJobs::kGoOn), 1u);
  EXPECT_TRUE(batch->is_stopping());
  EXPECT_FALSE(batch->is_aborting());
  EXPECT_EQ(batch->stop("cancelled"), 0u);
  EXPECT_TRUE(batch->is_aborting()) << "a command may still stop what runs";
  batch->close();
  batch->jobs_dropped({{IndexRange{0, 2}}});
  EXPECT_EQ(rows_of(*batch).back(), (Row{1, JobStatus::kCancelled, "deadline"}));
}

TEST_F(BatchTest, ABatchThatIsOverCannotBeStopped) {
  const auto batch = make();
  batch->close();
  EXPECT_EQ(batch->stop("late"), 0u);
  EXPECT_FALSE(batch->is_stopping());
  EXPECT_EQ(batch->status().state, BatchState::kDone);
}

TEST_F(BatchTest, StoppingTakesAwayEveryHold) {
  const auto batch = make();
  batch->jobs_added(1);
  batch->set_hold(Hold::kCommand);
  batch->set_hold(Hold::kBatches);
  EXPECT_TRUE(batch->is_held());
  EXPECT_TRUE(batch->status().paused);
  batch->stop("enough");
  EXPECT_FALSE(batch->is_held());
}

// ---- The journal ----

TEST_F(BatchTest, EachPublicationIsAStepWithTheTotalsAfterIt) {
  const auto batch = make();
  batch->jobs_added(3);
  batch->close();
  publish(*batch, {{0, JobStatus::kOk, "x"}});
  publish(*batch, {{1, JobStatus::kError, "y"}, {2, JobStatus::kOk, "z"}});
  ASSERT_EQ(journal.steps.size(), 2u);
  EXPECT_EQ(journal.steps[0].number, 0u);
  EXPECT_THAT(journal.steps[0].ended, ElementsAre(IndexRange{0, 1}));
  EXPECT_EQ(journal.steps[0].totals.total(), 1u);
  EXPECT_EQ(journal.steps[0].finished_at, 0);
  EXPECT_EQ(journal.steps[1].number, 1u);
  EXPECT_EQ(journal.steps[1].totals.total(), 3u);
  EXPECT_EQ(journal.steps[1].totals.failed(), 1u);
  EXPECT_THAT(journal.steps[1].failed, ElementsAre(IndexRange{1, 2}));
  EXPECT_EQ(journal.steps[1].row_count, 3u);
  EXPECT_NE(journal.steps[1].finished_at, 0);
  EXPECT_EQ(batch->status().steps, 2u);
}

TEST_F(BatchTest, AnEndWithoutJobsIsAStep) {
  const auto batch = make();
  batch->jobs_added(1);
  batch->jobs_withdrawn(1);
  EXPECT_THAT(journal.steps, IsEmpty()) << "it is open";
  batch->close();
  ASSERT_EQ(journal.steps.size(), 1u);
  EXPECT_NE(journal.steps[0].finished_at, 0);
}

// RETRY of very many jobs, in two halves.
TEST_F(BatchTest, BetweenTheHalvesOfARetryItsJobsCountAsQueuedAndTheBatchIsNotOver) {
  constexpr std::uint64_t kFailed = 3000;
  const auto batch = make();
  batch->jobs_added(2 * kFailed);
  batch->close();
  for (std::uint64_t i = 0; i < kFailed; ++i) {
    publish(*batch, {{2 * i + 1, JobStatus::kOk, ""}, {2 * i, JobStatus::kError, "no"}});
  }
  ASSERT_TRUE(batch->is_over());
  ASSERT_NE(journal.steps.back().all_failed, nullptr) << "the list is shared, not copied";
  EXPECT_EQ(journal.steps.back().all_failed->size(), kFailed);
  const auto begun = batch->failures().begin_requeue();
  EXPECT_EQ(begun.jobs, kFailed);
  EXPECT_EQ(begun.ranges, kFailed);
  EXPECT_EQ(batch->failures().begin_requeue().jobs, 0u) << "one at a time";
  EXPECT_FALSE(batch->is_over());
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.failed, 0u);
  EXPECT_EQ(status.queued, kFailed);
  EXPECT_EQ(status.retried, kFailed);
  EXPECT_EQ(status.superseded.below, 2 * kFailed);
  batch->close();
  EXPECT_FALSE(batch->is_over()) << "it ends after the second half";
  const std::vector<IndexRange> again = batch->failures().requeue();
  ASSERT_EQ(again.size(), kFailed);
  EXPECT_TRUE(std::ranges::is_sorted(again, {}, &IndexRange::low));
  const BatchStep& step = journal.steps.back();
  EXPECT_TRUE(step.is_base);
  EXPECT_EQ(step.requeued, again);
  EXPECT_EQ(count_of(step.ended), kFailed);
  EXPECT_EQ(step.totals.total(), kFailed);
  EXPECT_THAT(step.job_attempts, ElementsAre(JobAttempts{{0, 2 * kFailed - 1}, {1, 1}})) << "one for all";
  EXPECT_EQ(batch->status().failed, 0u);
  EXPECT_EQ(batch->status().retried, kFailed);
  EXPECT_EQ(batch->attempts().of(4), 2u);
  for (const IndexRange& range : again) publish(*batch, {{range.low, JobStatus::kOk, ""}});
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().ok, 2 * kFailed);
}

TEST_F(BatchTest, ACancelBetweenTheHalvesOfARetryCountsItsJobs) {
  const auto batch = make();
  batch->jobs_added(4);
  publish(*batch, {{0, JobStatus::kError, ""}, {2, JobStatus::kTimeout, ""}});
  EXPECT_EQ(batch->failures().begin_requeue().jobs, 2u);
  // One more fails meanwhile: it stays failed.
  publish(*batch, {{1, JobStatus::kError, ""}});
  EXPECT_EQ(batch->status().failed, 1u);
  EXPECT_EQ(batch->stop("enough"), 3u) << "two that are queued again, and one that never ran";
  batch->close();
  EXPECT_THAT(batch->failures().requeue(), ElementsAre(IndexRange{0, 1}, IndexRange{2, 3}));
  EXPECT_EQ(journal.steps.back().superseded, 2u) << "the later failure counts";
  batch->jobs_dropped({{IndexRange{0, 1}, IndexRange{2, 4}}});
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().failed, 1u);
  EXPECT_EQ(batch->status().cancelled, 3u);
}

TEST_F(BatchTest, DroppedRangesAreAsManyStepsAsTheyMustBeAndTheLastOneEndsTheBatch) {
  const auto batch = make();
  constexpr std::uint64_t kRanges = Batch::kDroppedAtOnce + 3;
  batch->jobs_added(2 * kRanges);
  batch->close();
  std::vector<IndexRange> odd;
  std::vector<IndexRange> even;
  for (std::uint64_t i = 0; i < kRanges; ++i) {
    even.push_back({2 * i, 2 * i + 1});
    odd.push_back({2 * i + 1, 2 * i + 2});
  }
  batch->stop("no");
  batch->jobs_dropped(even);
  ASSERT_EQ(journal.steps.size(), 2u);
  EXPECT_EQ(journal.steps[0].ended.size(), Batch::kDroppedAtOnce);
  EXPECT_EQ(journal.steps[0].totals.count(JobStatus::kCancelled), Batch::kDroppedAtOnce);
  EXPECT_EQ(journal.steps[1].ended.size(), 3u);
  EXPECT_FALSE(batch->is_over());
  std::vector<std::uint64_t> indexes;
  batch->results().read(Batch::kDroppedAtOnce - 1, 3, [&](const ResultRow& row) {
    EXPECT_EQ(row.output, "no");
    indexes.push_back(row.index);
    return true;
  });
  EXPECT_THAT(indexes, ElementsAre(2 * Batch::kDroppedAtOnce - 2, 2 * Batch::kDroppedAtOnce,
                                   2 * Batch::kDroppedAtOnce + 2));
  batch->jobs_dropped({{IndexRange{1, 2}}});
  batch->jobs_dropped(std::span(odd).subspan(1));
  ASSERT_EQ(journal.steps.size(), 5u);
  EXPECT_EQ(journal.steps[3].finished_at, 0);
  EXPECT_NE(journal.steps[4].finished_at, 0);
  EXPECT_EQ(journal.steps[4].stop_reason, "no");
  EXPECT_TRUE(batch->is_over());
}

TEST_F(BatchTest, ItsMemoryGrowsWithItsRowsAndShrinksWhenTheyAreDropped) {
  const auto batch = make();
  batch->jobs_added(2);
  const std::uint64_t before = batch->memory_bytes();
  EXPECT_GE(before, sizeof(Batch));
  publish(*batch, {{0, JobStatus::kOk, std::string(100'000, 'x')}});
  const std::uint64_t with_row = batch->memory_bytes();
  EXPECT_GE(with_row, before + 100'000);
  EXPECT_LT(with_row, before + 110'000);
  batch->drop_rows_before(1);
  EXPECT_EQ(batch->memory_bytes(), before);
}

TEST_F(BatchTest, OnlyTheFirstChangeSinceItWasClearedIsTheFirst) {
  const auto batch = make();
  EXPECT_TRUE(batch->set_changed());
  EXPECT_FALSE(batch->set_changed());
  batch->clear_changed();
  EXPECT_TRUE(batch->set_changed());
}

}  // namespace
}  // namespace locksley
