// The lane without executors: what enters its ring, what leaves it, and who is told.
#include "core/lane/lane.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/handler.h"
#include "core/batch/payload.h"
#include "core/lane/lane_view.h"
#include "core/lane/result_writer.h"
#include "core/lane/turn.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;
using testing::Row;
using testing::rows_of;

class LaneTest : public ::testing::Test {
 protected:
  LaneTest() {
    lane.on_work([this] { ++wakes; });
    lane.on_stop([this] { ++stops; });
  }
  std::shared_ptr<Batch> make(BatchOptions options = {}) {
    return std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0));
  }
  std::shared_ptr<Batch> submit(std::uint64_t jobs, bool open = false) {
    auto batch = make();
    lane.submit(batch, jobs, open);
    return batch;
  }
  QueueView view(const std::shared_ptr<Batch>& batch) { return lane.view().batch(*batch); }
  // Runs the jobs of the turn.
  void run_jobs() {
    const IndexRange jobs = turn.left();
    writer.begin_burst(jobs.low);
    for (std::uint64_t index = jobs.low; index < jobs.high; ++index) {
      writer.begin_job(index);
      writer.end_job(JobStatus::kOk);
    }
    turn.count_ended(jobs.size());
  }
  // The whole turn that was claimed.
  void run() {
    turn.begin_measured();
    run_jobs();
    turn.leave();
    turn.settle(steady_now());
  }
  int take_wakes() { return std::exchange(wakes, 0); }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  int wakes = 0;
  int stops = 0;
  Lane lane{"a lane", {}};
  ResultWriter writer;
  Turn turn{lane, writer};
};

TEST_F(LaneTest, ItHasTheNameAndTheQuantumThatItWasGiven) {
  EXPECT_EQ(lane.name(), "a lane");
  EXPECT_EQ(lane.quantum(), std::chrono::milliseconds(1));
  lane.set_quantum(std::chrono::milliseconds(5));
  EXPECT_EQ(lane.quantum(), std::chrono::milliseconds(5));
}

TEST_F(LaneTest, JobsThatNoExecutorHasClaimedAreWithdrawnFromTheBack) {
  const auto batch = submit(10);
  ASSERT_TRUE(turn.try_claim());
  ASSERT_EQ(turn.left(), (IndexRange{0, 1}));
  EXPECT_EQ(lane.view().first_unclaimed(*batch), 1u);
  EXPECT_EQ(lane.withdraw(*batch, 4), 4u);
  EXPECT_EQ(batch->status().jobs, 4u);
  EXPECT_EQ(view(batch).queued, 3u);
  EXPECT_EQ(lane.withdraw(*batch, 4), std::nullopt) << "these have gone";
  EXPECT_EQ(lane.withdraw(*batch, 0), 1u) << "the first job was claimed";
  EXPECT_FALSE(batch->is_over());
  run();
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().ok, 1u);
  EXPECT_EQ(lane.withdraw(*batch, 0), std::nullopt) << "the batch has left the ring";
}

TEST_F(LaneTest, ABatchOfWhichEverythingIsWithdrawnIsOverAndLeavesTheRing) {
  const auto batch = submit(10);
  EXPECT_EQ(lane.withdraw(*batch, 0), 0u);
  EXPECT_TRUE(batch->is_over());
  EXPECT_FALSE(lane.hints().has_work());
  EXPECT_FALSE(lane.view().has_claims(*batch));
}

TEST_F(LaneTest, ABatchMayTakeTheShareOfAnotherTenantThanItsOwn) {
  BatchOptions options;
  options.tenant = "alice";
  options.queue_tenant = "all of them";
  const auto batch = make(options);
  lane.submit(batch, 1, /*open=*/false);
  const RingSnapshot snapshot = lane.view().snapshot(1);
  ASSERT_EQ(snapshot.tenants.size(), 1u);
  EXPECT_EQ(snapshot.tenants[0].tenant, "all of them");
  EXPECT_EQ(batch->options().tenant, "alice");
  lane.cancel(*batch, "");
}

TEST_F(LaneTest, ASubmittedBatchIsInTheRingWithItsJobsAndWakesTheExecutors) {
  const auto batch = submit(3);
  EXPECT_EQ(take_wakes(), 1);
  EXPECT_EQ(view(batch).queued, 3u);
  EXPECT_EQ(batch->status().jobs, 3u);
  EXPECT_EQ(batch->jobs_added(1), std::nullopt) << "it is closed";
  ASSERT_TRUE(turn.try_claim());
  EXPECT_EQ(turn.left(), (IndexRange{0, 1}));
  run();
  EXPECT_EQ(view(batch).queued, 2u);
  lane.cancel(*batch, "over");
}

TEST_F(LaneTest, ASubmissionMayLeaveTheWakingToItsCaller) {
  const auto batch = make();
  lane.submit(batch, 3, /*open=*/false, Lane::Start::kLater);
  EXPECT_EQ(take_wakes(), 0);
  EXPECT_EQ(view(batch).queued, 3u);
  lane.wake();
  EXPECT_EQ(take_wakes(), 1);
  lane.cancel(*batch, "over");
}

TEST_F(LaneTest, ABatchWithoutJobsWakesNobodyAndLeavesWhenItIsClosed) {
  const auto open = submit(0, /*open=*/true);
  EXPECT_EQ(take_wakes(), 0);
  EXPECT_TRUE(view(open).attached);
  EXPECT_FALSE(open->is_over());
  lane.close(*open);
  EXPECT_FALSE(view(open).attached);
  EXPECT_TRUE(open->is_over());
  const auto closed = submit(0);
  EXPECT_FALSE(view(closed).attached);
  EXPECT_TRUE(closed->is_over());
}

TEST_F(LaneTest, JobsThatAreAddedWakeTheExecutorsAndFollowThoseBefore) {
  const auto batch = submit(2, /*open=*/true);
  take_wakes();
  EXPECT_TRUE(lane.add_jobs(*batch, 4));
  EXPECT_EQ(take_wakes(), 1);
  EXPECT_EQ(view(batch).queued, 6u);
  EXPECT_EQ(batch->status().jobs, 6u);
  lane.close(*batch);
  EXPECT_FALSE(lane.add_jobs(*batch, 1));
  EXPECT_EQ(view(batch).queued, 6u);
  lane.cancel(*batch, "over");
}

TEST_F(LaneTest, JobsThatComeAfterACancellationAreCancelled) {
  const auto batch = submit(1, /*open=*/true);
  const auto first = batch->jobs_added(2);
  ASSERT_EQ(first, 1u);
  lane.cancel(*batch, "no");
  EXPECT_FALSE(batch->is_over()) << "two jobs have not reached the ring";
  lane.enqueue_jobs(*batch, {1, 3});
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().cancelled, 3u);
}

TEST_F(LaneTest, RangesAreServedFromTheLowest) {
  const auto batch = make();
  batch->jobs_added(10);
  batch->close();
  const std::vector<IndexRange> ranges{{1, 2}, {5, 6}, {8, 9}};
  lane.enqueue(batch, ranges, /*open=*/false);
  std::vector<IndexRange> claims;
  while (turn.try_claim()) {
    claims.push_back(turn.left());
    run();
  }
  EXPECT_THAT(claims, ElementsAre(IndexRange{1, 2}, IndexRange{5, 6}, IndexRange{8, 9}));
  EXPECT_FALSE(view(batch).attached) << "it was closed";
}

TEST_F(LaneTest, AHeldBatchEntersTheRingHeld) {
  const auto batch = make();
  lane.pause(*batch);
  lane.submit(batch, 2, /*open=*/false);
  EXPECT_TRUE(view(batch).paused);
  EXPECT_FALSE(lane.hints().has_work());
  take_wakes();
  lane.resume(*batch);
  EXPECT_EQ(take_wakes(), 1);
  EXPECT_TRUE(lane.hints().has_work());
  lane.cancel(*batch, "over");
}

TEST_F(LaneTest, ABatchGoesOnWhenItsLastHoldIsReleased) {
  const auto batch = submit(2);
  lane.hold(*batch, Hold::kCommand);
  lane.hold(*batch, Hold::kHandler);
  EXPECT_TRUE(view(batch).paused);
  EXPECT_FALSE(lane.hints().has_work());
  take_wakes();
  lane.release(*batch, Hold::kHandler);
  EXPECT_EQ(take_wakes(), 0);
  EXPECT_FALSE(lane.hints().has_work());
  lane.release(*batch, Hold::kCommand);
  EXPECT_EQ(take_wakes(), 1);
  EXPECT_TRUE(lane.hints().has_work());
  lane.cancel(*batch, "over");
}

TEST_F(LaneTest, AWeightIsThatOfTheRecordAndOfTheRing) {
  const auto batch = submit(2);
  const auto other = submit(2);
  EXPECT_EQ(view(batch).share, 0.5);
  lane.set_weight(*batch, 3);
  EXPECT_EQ(batch->status().weight, 3u);
  EXPECT_EQ(view(batch).share, 0.75);
  lane.set_weight(*batch, 0);
  EXPECT_EQ(batch->status().weight, 1u);
  EXPECT_EQ(view(batch).share, 0.5);
  lane.cancel(*batch, "over");
  lane.cancel(*other, "over");
}

TEST_F(LaneTest, AWeightThatWasSetBeforeTheBatchEnteredCounts) {
  const auto batch = make();
  lane.set_weight(*batch, 3);
  lane.submit(batch, 2, /*open=*/false);
  const auto other = submit(2);
  EXPECT_EQ(view(batch).share, 0.75);
  lane.cancel(*batch, "over");
  lane.cancel(*other, "over");
}

TEST_F(LaneTest, CancelTellsTheExecutorsAndSaysHowManyJobsWillNotRun) {
  const auto batch = submit(5, /*open=*/true);
  EXPECT_EQ(lane.cancel(*batch, "no"), 5u);
  EXPECT_EQ(stops, 1);
  EXPECT_TRUE(batch->is_over()) << "it is a close, too";
  EXPECT_EQ(rows_of(*batch).at(0), (Row{0, JobStatus::kCancelled, "no"}));
  EXPECT_EQ(lane.cancel(*batch, "again"), 0u);
  EXPECT_FALSE(lane.hints().has_work());
}

TEST_F(LaneTest, WhatIsGivenBackToACancelledBatchIsRecordedAsCancelled) {
  const auto batch = submit(3);
  ASSERT_TRUE(turn.try_claim());
  EXPECT_TRUE(lane.view().has_claims(*batch));
  lane.cancel(*batch, "no");
  EXPECT_EQ(batch->status().cancelled, 2u);
  turn.begin_measured();
  turn.leave();
  EXPECT_FALSE(turn.settle_and_claim(steady_now(), ClaimFilter::kAny));
  EXPECT_EQ(batch->status().cancelled, 3u);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(LaneTest, ASettlementClaimsTheNextTurnIfItIsAskedTo) {
  const auto batch = submit(3);
  ASSERT_TRUE(turn.try_claim());
  turn.begin_measured();
  run_jobs();
  turn.leave();
  ASSERT_TRUE(turn.settle_and_claim(steady_now(), ClaimFilter::kAny));
  EXPECT_EQ(turn.left().low, 1u);
  run();
  EXPECT_FALSE(turn.is_held());
  while (turn.try_claim()) run();
  EXPECT_TRUE(batch->is_over());
  EXPECT_FALSE(view(batch).attached);
}

TEST_F(LaneTest, ABatchThatWasCancelledBeforeItIsSubmittedStaysOver) {
  const auto batch = make();
  lane.cancel(*batch, "no");
  lane.submit(batch, 3, /*open=*/false);
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().jobs, 0u);
  EXPECT_FALSE(view(batch).attached);
}

TEST(LaneDeathTest, ABatchIsSubmittedOnce) {
  Lane lane("a lane", {});
  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  for (const bool open : {false, true}) {
    const auto batch = std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
    lane.submit(batch, 2, open);
    EXPECT_DEATH(lane.submit(batch, 2, open), "a batch is submitted a second time");
    lane.cancel(*batch, "over");
  }
}

TEST_F(LaneTest, ALimitOfFailuresIsNamedInTheReason) {
  BatchOptions options;
  options.max_fails = 7;
  const auto batch = make(options);
  lane.submit(batch, 1, /*open=*/false);
  lane.cancel_after_failures(*batch);
  EXPECT_EQ(rows_of(*batch).at(0).output, "cancelled after 7 failed jobs");
}

// A batch of which every second job has ended, in an earlier process, with a limit of failures.
class ScatteredRestTest : public LaneTest {
 protected:
  static constexpr std::uint64_t kLeft = 2 * Batch::kDroppedAtOnce;
  ScatteredRestTest() {
    BatchOptions options;
    options.max_fails = 1;
    options.keep = Keep::kNone;
    batch = make(options);
    BatchHistory history;
    history.jobs = 2 * kLeft;
    history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = kLeft;
    history.closed = true;
    batch->restore(history);
    std::vector<IndexRange> left;
    for (std::uint64_t i = 0; i < kLeft; ++i) left.push_back({2 * i, 2 * i + 1});
    lane.enqueue(batch, left, /*open=*/false);
  }
  // One job runs, and fails.
  void fail_one() {
    ASSERT_TRUE(turn.try_claim());
    turn.begin_measured();
    writer.begin_burst(turn.left().low);
    writer.begin_job(turn.left().low);
    writer.end_job(JobStatus::kError);
    turn.count_ended(1);
    turn.leave();
    turn.settle(steady_now());
  }

  std::shared_ptr<Batch> batch;
};

TEST_F(ScatteredRestTest, TheExecutorThatRecordsTheLastFailureDropsAFewJobsOnly) {
  std::vector<std::pair<std::shared_ptr<Batch>, Lane::Cancelled>> rests;
  lane.on_long_cancel([&rests](std::shared_ptr<Batch> of, Lane::Cancelled rest) {
    rests.emplace_back(std::move(of), std::move(rest));
  });
  fail_one();
  EXPECT_EQ(batch->status().cancelled, Batch::kDroppedAtOnce);
  EXPECT_TRUE(batch->is_stopping());
  ASSERT_EQ(rests.size(), 1U);
  EXPECT_EQ(rests.front().first, batch);
  while (!Lane::drop_some(*batch, rests.front().second)) {
  }
  EXPECT_EQ(batch->status().cancelled, kLeft - 1);
  EXPECT_EQ(batch->status().state, BatchState::kCancelled);
}

TEST_F(ScatteredRestTest, WithoutAnotherThreadTheExecutorDropsThemAll) {
  fail_one();
  EXPECT_EQ(batch->status().state, BatchState::kCancelled);
}

TEST_F(LaneTest, AShortCancellationAfterFailuresIsDoneAtOnce) {
  int rests = 0;
  lane.on_long_cancel([&rests](const std::shared_ptr<Batch>&, Lane::Cancelled) { ++rests; });
  const auto batch = submit(1'000'000);
  lane.cancel_after_failures(*batch);
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(rests, 0);
}

TEST_F(LaneTest, RetryingWhereNothingFailedChangesNothing) {
  const auto batch = submit(2);
  take_wakes();
  EXPECT_EQ(lane.retry_failed(batch), 0u);
  lane.retry_due(batch);
  EXPECT_EQ(take_wakes(), 0);
  EXPECT_EQ(view(batch).queued, 2u);
  lane.cancel(*batch, "over");
}

}  // namespace
}  // namespace locksley
