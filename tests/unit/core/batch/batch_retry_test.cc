// Jobs that fail and are retried, and failed jobs that are queued again.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "core/base/index_ranges.h"
#include "core/batch/batch_attempts.h"
#include "tests/support/batch_fixture.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::PoolFixture;
using testing::RecordingJournal;
using testing::Row;
using testing::rows_of;
using testing::wait_until;

BatchOptions options_with(std::uint32_t retries, Keep keep = Keep::kAll, std::uint64_t max_fails = 0) {
  BatchOptions options;
  options.retries = retries;
  options.keep = keep;
  options.max_fails = max_fails;
  return options;
}

class BatchRetryTest : public PoolFixture {
 protected:
  std::shared_ptr<Batch> submit(Handler& run, std::uint64_t jobs, BatchOptions options) {
    auto batch =
        std::make_shared<Batch>(std::move(options), run, std::make_unique<RangePayloads>(0), observer,
                                is_journaled ? std::make_unique<RecordingJournal>(journal) : nullptr);
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }

  // Does what the owner of batches does with a clock, and looks at the counters meanwhile.
  void drive(const std::shared_ptr<Batch>& batch) {
    wait_until(
        [&] {
          const BatchStatus status = batch->status();
          EXPECT_EQ(status.jobs,
                    status.queued + status.running + status.ok + status.failed + status.cancelled);
          EXPECT_LE(status.waiting, status.queued);
          if (status.retry_at <= Instant::clock::now()) lane.retry_due(batch);
          return batch->is_over();
        },
        "the batch is over");
  }

  // What recovery makes of the steps: which jobs have ended.
  std::vector<IndexRange> ended_by_steps() {
    std::vector<IndexRange> ended;
    for (std::size_t i = 0; i < journal.steps.size(); ++i) {
      const BatchStep& step = journal.steps[i];
      if (step.is_base) ended.clear();
      for (const IndexRange& range : step.ended) ended.push_back(range);
      ended = difference(sorted(std::move(ended)), step.requeued);
      EXPECT_EQ(count_of(ended), step.totals.total()) << "after step " << i;
    }
    return ended;
  }

  bool is_journaled = true;
  RecordingJournal::Record journal;
};

TEST_F(BatchRetryTest, AFailedJobIsTriedAgainAsOftenAsItMay) {
  std::mutex mutex;
  std::map<std::uint64_t, std::vector<std::uint32_t>> attempts;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    {
      const std::lock_guard lock(mutex);
      attempts[context.index()].push_back(context.attempt());
    }
    // Job i fails in its first i attempts.
    if (context.attempt() <= context.index()) context.fail("try " + std::to_string(context.attempt()));
  });
  const auto batch = submit(run, 6, options_with(3));
  drive(batch);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.ok, 4u);
  EXPECT_EQ(status.failed, 2u);
  EXPECT_EQ(status.retried, 1u + 2 + 3 + 3 + 3);
  EXPECT_EQ(status.rows, 6u) << "only the last try leaves a result";
  for (const Row& row : rows_of(*batch)) EXPECT_EQ(row.output, row.index < 4 ? "" : "try 4") << row.index;
  for (const auto& [index, seen] : attempts) {
    std::vector<std::uint32_t> expected(std::min<std::uint64_t>(index, 3) + 1);
    std::iota(expected.begin(), expected.end(), 1U);
    EXPECT_EQ(seen, expected) << index;
  }
  EXPECT_EQ(sorted(ended_by_steps()), std::vector<IndexRange>({{0, 6}}));
  EXPECT_EQ(journal.steps.back().failed, std::vector<IndexRange>({{4, 6}}));
}

// The thread that calls retry_due() does not work for long, however many jobs are due.
TEST_F(BatchRetryTest, ACallQueuesABoundedNumberOfScatteredJobsAgain) {
  constexpr std::uint64_t kJobs = 4'000;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.attempt() == 1 && context.index() % 2 == 0) context.fail("once");
  });
  const auto batch = submit(run, kJobs, options_with(1));
  wait_until([&] { return batch->status().waiting == kJobs / 2; }, "half of the jobs wait for a retry");
  wait_until(
      [&] {
        const std::uint64_t before = batch->status().waiting;
        lane.retry_due(batch);
        const std::uint64_t after = batch->status().waiting;
        EXPECT_LE(before - after, 256u);
        return after == 0;
      },
      "all are queued again");
  drive(batch);
  EXPECT_EQ(batch->status().ok, kJobs);
}

class KeepRetryTest : public BatchRetryTest, public ::testing::WithParamInterface<Keep> {};

// Many jobs of which each fails at random, whatever is kept: the counters are those of what really
// happened.
TEST_P(KeepRetryTest, EachJobEndsOnce) {
  constexpr std::uint64_t kJobs = 3'000;
  constexpr std::uint32_t kRetries = 2;
  std::vector<std::atomic<std::uint32_t>> attempts(kJobs);
  const auto fails = [](std::uint64_t index, std::uint32_t attempt) {
    return std::mt19937_64(index * 10 + attempt)() % 3 == 0;
  };
  Handler& run = handler([&](JobContext& context, std::string_view) {
    const std::uint32_t attempt = ++attempts[context.index()];
    EXPECT_EQ(context.attempt(), attempt);
    if (fails(context.index(), attempt)) context.fail("again");
  });
  const auto batch = submit(run, kJobs, options_with(kRetries, GetParam()));
  drive(batch);
  std::uint64_t failed = 0;
  std::uint64_t retried = 0;
  for (std::uint64_t i = 0; i < kJobs; ++i) {
    std::uint32_t expected = 1;
    while (expected <= kRetries && fails(i, expected)) ++expected;
    ASSERT_EQ(attempts[i].load(), expected) << i;
    failed += fails(i, expected) ? 1 : 0;
    retried += expected - 1;
  }
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.failed, failed);
  EXPECT_EQ(status.ok, kJobs - failed);
  EXPECT_EQ(status.retried, retried);
  const std::uint64_t rows = GetParam() == Keep::kAll ? kJobs : GetParam() == Keep::kFailures ? failed : 0;
  EXPECT_EQ(status.rows, rows);
  EXPECT_EQ(ended_by_steps(), std::vector<IndexRange>({{0, kJobs}}));
  EXPECT_EQ(count_of(journal.steps.back().failed), failed);
}

// The same, with failed jobs queued again by hand while it runs and when it is over.
TEST_P(KeepRetryTest, FailedJobsAreQueuedAgain) {
  constexpr std::uint64_t kJobs = 2'000;
  std::vector<std::atomic<std::uint32_t>> attempts(kJobs);
  std::atomic<bool> is_mended{false};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    const std::uint32_t attempt = ++attempts[context.index()];
    EXPECT_EQ(context.attempt(), attempt);
    if (context.index() % 3 == 0 && !is_mended) throw std::runtime_error("broken");
  });
  const auto batch = submit(run, kJobs, options_with(1, GetParam()));
  constexpr std::uint64_t kBroken = (kJobs + 2) / 3;
  for (int round = 0; round < 20; ++round) lane.retry_failed(batch);
  drive(batch);
  EXPECT_EQ(batch->status().failed, kBroken);
  EXPECT_EQ(lane.retry_failed(batch), kBroken);
  EXPECT_FALSE(batch->is_over());
  EXPECT_EQ(batch->status().finished_at, 0);
  drive(batch);
  EXPECT_EQ(batch->status().failed, kBroken) << "each had its retries once more";
  is_mended = true;
  EXPECT_EQ(lane.retry_failed(batch), kBroken);
  drive(batch);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.ok, kJobs);
  EXPECT_EQ(lane.retry_failed(batch), 0u);
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(ended_by_steps(), std::vector<IndexRange>({{0, kJobs}}));
  if (GetParam() == Keep::kNone) return;
  // What was read before is still at its place; of each job one row counts.
  std::map<std::uint64_t, int> counted;
  std::uint64_t place = 0;
  for (const Row& row : rows_of(*batch)) {
    if (!status.superseded.covers(place++, row.index) || row.status == JobStatus::kOk) ++counted[row.index];
  }
  EXPECT_EQ(counted.size(), GetParam() == Keep::kAll ? kJobs : 0);
  for (const auto& [index, times] : counted) EXPECT_EQ(times, 1) << index;
}

INSTANTIATE_TEST_SUITE_P(All, KeepRetryTest, ::testing::Values(Keep::kAll, Keep::kFailures, Keep::kNone),
                         [](const auto& tested) {
                           return std::string(tested.param == Keep::kAll        ? "All"
                                              : tested.param == Keep::kFailures ? "Failures"
                                                                                : "None");
                         });

TEST_F(BatchRetryTest, WhatWaitsToBeTriedAgainEndsCancelledWithItsBatch) {
  Handler& run = handler([](JobContext& context, std::string_view) { context.fail("no"); });
  const auto batch = submit(run, 100, options_with(1000));
  wait_until([&] { return batch->status().waiting == 100; }, "all of them wait");
  EXPECT_EQ(batch->status().queued, 100u);
  EXPECT_EQ(lane.cancel(*batch, "enough"), 100u);
  wait_over(*batch);
  EXPECT_EQ(batch->status().cancelled, 100u);
  EXPECT_EQ(rows_of(*batch).back(), (Row{99, JobStatus::kCancelled, "enough"}));
  EXPECT_EQ(lane.retry_failed(batch), 0u) << "a batch that was cancelled stays so";
  EXPECT_EQ(ended_by_steps(), std::vector<IndexRange>({{0, 100}}));
}

TEST_F(BatchRetryTest, OnlyTheLastFailureCountsForMaxFails) {
  std::atomic<int> ran{0};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    ++ran;
    if (context.attempt() == 1) context.fail("at first");
  });
  const auto batch = submit(run, 200, options_with(1, Keep::kAll, 1));
  drive(batch);
  EXPECT_EQ(batch->status().ok, 200u);
  EXPECT_EQ(ran, 400);
}

TEST_F(BatchRetryTest, AStoppedBatchTriesNothingAgain) {
  Handler& run = handler([](JobContext& context, std::string_view) { context.fail("no"); });
  const auto batch = submit(run, 5'000, options_with(1, Keep::kAll, 10));
  drive(batch);
  EXPECT_EQ(batch->status().state, BatchState::kCancelled);
  EXPECT_GE(batch->status().failed, 10u);
  EXPECT_EQ(ended_by_steps(), std::vector<IndexRange>({{0, 5'000}}));
}

// Without a journal, too, a batch forgets the attempts and the notes of the jobs that ended well.
TEST_P(KeepRetryTest, JobsThatEndedWellCostNoMemory) {
  is_journaled = false;
  Handler& run = handler([](JobContext& context, std::string_view) {
    if (context.index() % 2 == 0 || context.attempt() != 1) return;
    EXPECT_TRUE(context.frame().batch->set_note(context.index(), "half"));
    context.fail("at first");
  });
  const auto bytes_after = [&](std::uint64_t jobs) {
    const auto batch = submit(run, jobs, options_with(1, GetParam()));
    drive(batch);
    EXPECT_EQ(batch->status().ok, jobs);
    EXPECT_EQ(batch->status().retried, jobs / 2);
    std::uint64_t notes = 0;
    for (std::uint64_t i = 0; i < jobs; ++i) notes += batch->attempts().note(i).empty() ? 0 : 1;
    EXPECT_EQ(notes, 0u);
    return batch->memory_bytes();
  };
  const std::uint64_t few = bytes_after(2);
  const std::uint64_t many = bytes_after(2'000);
  if (GetParam() == Keep::kAll) return;  // the results take memory, too
  EXPECT_EQ(many, few);
}

// The worker cancels while the owner puts jobs back: they end, whoever comes first.
TEST_F(BatchRetryTest, NoJobIsLostBetweenCancelAndRetry) {
  is_journaled = false;
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::atomic<std::uint64_t> ran{0};
    Handler& run = handler([&](JobContext& context, std::string_view) {
      ++ran;
      if (context.index() % 2 == 0) context.fail("no");
    });
    const auto batch = submit(run, 64, options_with(1000));
    std::jthread canceller([&] {
      while (ran.load() < 70 + round) std::this_thread::yield();
      lane.cancel(*batch, "enough");
    });
    drive(batch);
  }
}

// Jobs that an earlier process left, and jobs that failed in it.
TEST_F(BatchRetryTest, GoesOnFromWhatAnEarlierProcessLeft) {
  std::mutex mutex;
  std::map<std::uint64_t, std::uint32_t> attempts;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    const std::lock_guard lock(mutex);
    attempts[context.index()] = context.attempt();
    if (context.index() == 6) context.fail("once more");
  });
  BatchHistory history;
  history.jobs = 12;
  history.closed = true;
  history.attempt = 2;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 5;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kError)] = 5;
  history.failed = {{7, 12}};
  history.job_attempts = {{{5, 7}, {1, 0}}, {{6, 7}, {2, 0}}};
  history.submitted_at = history.started_at = 1;
  auto batch = std::make_shared<Batch>(options_with(2), run, std::make_unique<RangePayloads>(0));
  batch->restore(history);
  const IndexRange left{5, 7};
  lane.enqueue(batch, {&left, 1}, /*open=*/false);
  drive(batch);
  EXPECT_EQ(attempts, (std::map<std::uint64_t, std::uint32_t>{{5, 3}, {6, 4}}));
  EXPECT_EQ(batch->status().failed, 6u) << "its third failure is its last";
  // Of the six the ring knows one.
  EXPECT_EQ(lane.retry_failed(batch), 6u);
  drive(batch);
  EXPECT_EQ(batch->status().ok, 11u);
  EXPECT_EQ(attempts.at(11), 3u);
}

TEST_F(BatchRetryTest, WhichJobsFailedMustBeKnown) {
  Handler& run = handler([](JobContext&, std::string_view) {});
  BatchHistory history;
  history.jobs = 3;
  history.closed = true;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kError)] = 3;
  history.finished_at = 1;
  auto batch = std::make_shared<Batch>(BatchOptions{}, run, std::make_unique<RangePayloads>(0));
  batch->restore(history);
  EXPECT_EQ(lane.retry_failed(batch), 0u);
  EXPECT_TRUE(batch->is_over());
}

TEST_F(BatchRetryTest, ABatchIsHeldForEachReasonByItself) {
  std::atomic<int> ran{0};
  Handler& run = handler([&](JobContext&, std::string_view) { ++ran; });
  auto batch = make(run, std::make_unique<RangePayloads>(0));
  for (const Hold hold : {Hold::kDelay, Hold::kBatches, Hold::kCommand}) batch->set_hold(hold);
  lane.submit(batch, 0, /*open=*/false);
  EXPECT_FALSE(batch->is_over()) << "it has no jobs, but it is to start later";
  lane.release(*batch, Hold::kBatches);
  lane.release(*batch, Hold::kCommand);
  EXPECT_FALSE(batch->is_over());
  EXPECT_FALSE(batch->status().paused);
  lane.release(*batch, Hold::kDelay);
  EXPECT_TRUE(batch->is_over());

  auto second = make(run, std::make_unique<RangePayloads>(0));
  for (const Hold hold : {Hold::kDelay, Hold::kCommand}) second->set_hold(hold);
  lane.submit(second, 3, /*open=*/false);
  lane.release(*second, Hold::kCommand);
  EXPECT_FALSE(lane.hints().has_work()) << "one reason is left";
  auto behind = submit_range(run, 1);
  wait_over(*behind);
  EXPECT_EQ(ran, 1);
  lane.release(*second, Hold::kDelay);
  wait_over(*second);
  EXPECT_EQ(ran, 4);
}

}  // namespace
}  // namespace locksley
