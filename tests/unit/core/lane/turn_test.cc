// A turn: claimed or joined, begun, published, left and settled, on one thread and step by step.
#include "core/lane/turn.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane_view.h"
#include "core/sync/mutex.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::rows_of;

// Keeps what the batch's status was at each change that its observer was told of. Any thread.
class StatusHistory final : public BatchObserver {
 public:
  void batch_changed(const std::shared_ptr<Batch>& batch) override {
    const MutexLock lock(mutex_);
    seen_.push_back(batch->status());
  }
  void handler_threw(const Batch&, std::uint64_t, std::string_view) override {}
  void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}

  std::vector<BatchStatus> take() {
    const MutexLock lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  Mutex mutex_;
  std::vector<BatchStatus> seen_ LOCKSLEY_GUARDED_BY(mutex_);
};

class TurnTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> submit(std::uint64_t jobs, BatchOptions options = {}) {
    auto batch =
        std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0), &history);
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  // Ends the lowest jobs that are left.
  static void end_jobs(Turn& of, ResultWriter& to, std::uint64_t jobs, JobStatus status = JobStatus::kOk) {
    for (std::uint64_t i = 0; i < jobs; ++i) {
      to.begin_job(of.left().low);
      to.end_job(status);
      of.count_ended(1);
    }
  }
  // Runs all that is left in the ring.
  std::uint64_t run_rest() {
    std::uint64_t jobs = 0;
    while (turn.try_claim()) {
      turn.begin_measured();
      jobs += turn.left().size();
      end_jobs(turn, writer, turn.left().size());
      turn.leave();
      turn.settle(steady_now());
    }
    return jobs;
  }
  RingSnapshot ring() { return lane.view().snapshot(0); }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  StatusHistory history;
  // Turns are of many jobs from the start.
  Lane lane{"turns", {.share = Share::kJobs, .quantum = std::chrono::seconds(1)}};
  ResultWriter writer;
  Turn turn{lane, writer};
};

TEST_F(TurnTest, ThereIsNoneWithoutWork) {
  EXPECT_FALSE(turn.try_claim());
  EXPECT_FALSE(turn.is_held());
}

TEST_F(TurnTest, TheExecutorIsCountedFromTheBeginUntilItHasLeft) {
  const auto batch = submit(4);
  ASSERT_TRUE(turn.try_claim());
  EXPECT_EQ(ring().executors, 1U);
  EXPECT_EQ(batch->status().running, 0U);
  turn.begin_measured();
  EXPECT_EQ(batch->status().running, 1U);
  end_jobs(turn, writer, 1);
  turn.leave();
  EXPECT_EQ(batch->status().running, 0U);
  EXPECT_EQ(ring().executors, 1U);
  turn.settle(steady_now());
  EXPECT_EQ(ring().executors, 0U);
  EXPECT_FALSE(turn.is_held());
  EXPECT_EQ(run_rest(), 3U);
}

TEST_F(TurnTest, ABatchStartsWithItsFirstJob) {
  const auto batch = submit(1);
  ASSERT_TRUE(turn.try_claim());
  turn.begin_at_claim();
  turn.leave();
  turn.settle(steady_now());
  EXPECT_EQ(batch->status().state, BatchState::kQueued) << "the executor could run no job";
  EXPECT_TRUE(history.take().empty());
  ASSERT_TRUE(turn.try_claim());
  turn.begin_at_claim();
  turn.job_begins();
  EXPECT_EQ(batch->status().state, BatchState::kRunning);
  turn.job_begins();
  EXPECT_EQ(batch->status().running, 1U);
  turn.leave();
  turn.settle(steady_now());
  EXPECT_EQ(batch->status().running, 0U);
}

// The order that every executor keeps: whoever sees that nothing runs sees all that has ended.
TEST_F(TurnTest, AllThatEndedIsPublishedBeforeTheExecutorLeaves) {
  const auto batch = submit(10);
  for (int i = 0; i < 3; ++i) {  // the first claim is of one job
    ASSERT_TRUE(turn.try_claim());
    turn.begin_measured();
    end_jobs(turn, writer, 1);
    (void)history.take();
    turn.leave();
    const std::vector<BatchStatus> seen = history.take();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].ok, batch->status().ok);
    EXPECT_EQ(seen[0].running, 1U) << "it left before its results could be seen";
    turn.settle(steady_now());
  }
  run_rest();
}

TEST_F(TurnTest, PublishedJobsCanBeSeenDuringTheTurn) {
  const auto batch = submit(1);
  ASSERT_TRUE(turn.try_claim());
  turn.begin_measured();
  end_jobs(turn, writer, 1);
  EXPECT_FALSE(batch->is_over());
  turn.publish();
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(rows_of(*batch).size(), 1U);
  turn.leave();
  turn.settle(steady_now());
}

TEST_F(TurnTest, JobsThatDidNotEndGoBackAndAreClaimedAgain) {
  const auto batch = submit(100);
  ASSERT_TRUE(turn.try_claim());
  const std::uint64_t claimed = turn.left().size();
  turn.begin_measured();
  turn.leave();
  turn.settle(steady_now());
  EXPECT_EQ(ring().queued, 100U);
  ASSERT_GE(claimed, 1U);
  EXPECT_EQ(run_rest(), 100U);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(TurnTest, SettlesAndClaimsTheNext) {
  const auto batch = submit(5);
  ASSERT_TRUE(turn.try_claim(ClaimFilter::kAny, 1));
  std::uint64_t jobs = 0;
  do {
    turn.begin_measured();
    jobs += turn.left().size();
    end_jobs(turn, writer, turn.left().size());
    turn.leave();
  } while (turn.settle_and_claim(steady_now(), ClaimFilter::kAny));
  EXPECT_FALSE(turn.is_held());
  EXPECT_EQ(jobs, 5U);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(TurnTest, AClaimIsOfAtMostSoManyJobs) {
  submit(100);
  run_rest();
  submit(100);
  ASSERT_TRUE(turn.try_claim(ClaimFilter::kAny, 3));
  EXPECT_LE(turn.left().size(), 3U);
  turn.begin_measured();
  turn.leave();
  turn.settle(steady_now());
  run_rest();
}

TEST_F(TurnTest, AThiefSettlesWhatItHasStolen) {
  const auto batch = submit(16);
  while (turn.try_claim()) {
    const IndexRange claimed = turn.left();
    turn.begin_measured();
    if (claimed.size() < 2) {
      end_jobs(turn, writer, 1);
    } else {
      const IndexRange stolen{claimed.high - 1, claimed.high};
      turn.set_left({claimed.low, stolen.low});
      ResultWriter thiefs_writer;
      Turn thief(lane, thiefs_writer);
      thief.join(*batch, stolen);
      EXPECT_EQ(thief.expected(), Nanoseconds{0});
      thief.begin_measured();
      EXPECT_EQ(ring().executors, 2U);
      // It ends after the turn that it has stolen from.
      end_jobs(turn, writer, turn.left().size());
      turn.leave();
      turn.settle(steady_now());
      end_jobs(thief, thiefs_writer, 1);
      thief.leave();
      thief.settle(steady_now());
      continue;
    }
    turn.leave();
    turn.settle(steady_now());
  }
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(rows_of(*batch).size(), 16U);
}

TEST_F(TurnTest, AThiefOfSubJobsEndsNoJob) {
  const auto batch = submit(1);
  ASSERT_TRUE(turn.try_claim());
  turn.begin_measured();
  ResultWriter unused;
  {
    Turn thief(lane, unused);
    thief.join(*batch, {});
    thief.begin_measured();
    EXPECT_EQ(ring().executors, 2U);
    thief.leave();
    thief.settle(steady_now());
  }
  EXPECT_EQ(batch->status().ok, 0U);
  end_jobs(turn, writer, 1);
  turn.leave();
  turn.settle(steady_now());
  EXPECT_EQ(batch->status().ok, 1U);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(TurnTest, AThiefOfSubJobsDoesNotCountAsAJobThatRuns) {
  const auto batch = submit(3);
  ASSERT_TRUE(turn.try_claim(ClaimFilter::kAny, 1));
  turn.begin_measured();
  ResultWriter unused;
  {
    Turn thief(lane, unused);
    thief.join(*batch, {});
    thief.begin_measured();
    EXPECT_EQ(batch->status().running, 1U);
    EXPECT_EQ(batch->status().queued, 2U);
    EXPECT_EQ(lane.cancel(*batch, "enough"), 2U);
  }
  EXPECT_EQ(batch->status().running, 1U) << "the job runs after the thief has left";
  end_jobs(turn, writer, 1);
  turn.leave();
  turn.settle(steady_now());
  EXPECT_EQ(batch->status().cancelled, 2U);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(TurnTest, OneThatIsDestroyedGivesBackWhatIsLeft) {
  const auto batch = submit(10);
  for (const int steps : {1, 2, 3}) {
    ResultWriter other_writer;
    Turn destroyed(lane, other_writer);
    ASSERT_TRUE(destroyed.try_claim(ClaimFilter::kAny, 2));
    if (steps == 1) continue;
    destroyed.begin_measured();
    end_jobs(destroyed, other_writer, 1);
    if (steps == 2) continue;
    destroyed.leave();
  }
  EXPECT_EQ(ring().executors, 0U);
  EXPECT_EQ(batch->status().running, 0U);
  EXPECT_EQ(batch->status().ok, 2U);
  EXPECT_EQ(ring().queued, 8U);
  EXPECT_EQ(run_rest(), 8U);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(TurnTest, TooManyFailuresCancelTheRest) {
  BatchOptions options;
  options.max_fails = 1;
  const auto batch = submit(50, options);
  ASSERT_TRUE(turn.try_claim());
  turn.begin_measured();
  end_jobs(turn, writer, 1, JobStatus::kError);
  turn.leave();
  turn.settle(steady_now());
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().failed, 1U);
  EXPECT_EQ(batch->status().cancelled, 49U);
}

TEST_F(TurnTest, JobsOfACancelledBatchThatGoBackAreCancelled) {
  const auto batch = submit(10);
  ASSERT_TRUE(turn.try_claim());
  turn.begin_measured();
  lane.cancel(*batch, "enough");
  EXPECT_FALSE(batch->is_over());
  turn.leave();
  turn.settle(steady_now());
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().cancelled, 10U);
}

TEST_F(TurnTest, TheBatchIsChargedForTheTimeFromTheBegin) {
  const auto batch = submit(2);
  ASSERT_TRUE(turn.try_claim(ClaimFilter::kAny, 1));
  turn.begin_measured();
  end_jobs(turn, writer, 1);
  turn.leave();
  turn.settle(turn.began() + std::chrono::seconds(3));
  EXPECT_EQ(lane.view().batch(*batch).job_cost, std::chrono::seconds(3));
  run_rest();
}

// The same order on a pool's worker: else STATUS would show an ended job as queued for as long as
// its publication takes.
// One worker, so that no other runs a job of this batch at the same time.
class WorkersTurnTest : public testing::PoolFixture {
 protected:
  WorkersTurnTest() : PoolFixture(/*workers=*/1) {}
};

TEST_F(WorkersTurnTest, ResultsCanBeSeenBeforeTheWorkerHasLeft) {
  StatusHistory history;
  observer = &history;
  std::shared_ptr<Batch> batch;
  // The turn ends with the first job.
  Handler& run = handler([&](JobContext&, std::string_view) { lane.pause(*batch); });
  batch = make(run, std::make_unique<RangePayloads>(0));
  lane.submit(batch, 10, /*open=*/false);
  testing::wait_until([&] { return batch->status().running == 0 && batch->status().ok == 1; },
                      "a job has ended");
  bool was_told = false;
  for (const BatchStatus& status : history.take()) {
    if (status.ok != 1) continue;
    was_told = true;
    EXPECT_EQ(status.running, 1U) << "the worker left before its result could be seen";
  }
  EXPECT_TRUE(was_told);
  lane.cancel(*batch, "enough");
  wait_over(*batch);
  pool.stop();
}

using TurnDeathTest = TurnTest;

TEST_F(TurnDeathTest, StepsInAWrongOrderAreBugs) {
  submit(2);
  EXPECT_DEATH(turn.begin_measured(), "without a claim");
  ASSERT_TRUE(turn.try_claim());
  EXPECT_DEATH(turn.leave(), "has not joined");
  EXPECT_DEATH((void)turn.try_claim(), "in the middle of another");
  turn.begin_measured();
  EXPECT_DEATH(turn.settle(steady_now()), "before its executor has left");
  turn.leave();
  turn.settle(steady_now());
  run_rest();
}

TEST_F(TurnTest, ATurnThatHasOnlyWaitedForPayloadsIsNotCharged) {
  const auto batch = submit(5);
  ASSERT_TRUE(turn.try_claim());
  turn.begin_measured();
  turn.set_backoff(Backoff::kNoPayloads);
  turn.leave();
  turn.settle_for(std::chrono::seconds(1));
  EXPECT_EQ(lane.view().batch(*batch).received, 0.0);
  EXPECT_EQ(lane.view().batch(*batch).backoff, Backoff::kNoPayloads);
  EXPECT_FALSE(turn.try_claim());
  lane.payloads_arrived(*batch);
  ASSERT_TRUE(turn.try_claim());
  turn.begin_measured();
  end_jobs(turn, writer, 1);
  turn.leave();
  turn.settle_for(std::chrono::milliseconds(1));
  EXPECT_EQ(lane.view().batch(*batch).job_cost, std::chrono::milliseconds(1)) << "without the wait";
  EXPECT_EQ(run_rest(), 4U);
}

}  // namespace
}  // namespace locksley
