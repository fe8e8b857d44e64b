// What a batch tells its journal, and a batch that is made what an earlier process left.
#include "core/batch/batch_journal.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <vector>

#include "core/batch/batch_results.h"
#include "core/sync/mutex.h"
#include "tests/support/gate.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::Gate;
using testing::PoolFixture;
using testing::Row;
using testing::rows_of;
using testing::wait_until;
using namespace std::chrono_literals;

// Keeps all steps. Outlives the batch that owns the journal by which they come.
struct Steps {
  Mutex mutex;
  std::vector<BatchStep> all LOCKSLEY_GUARDED_BY(mutex);

  std::vector<BatchStep> get() {
    const MutexLock lock(mutex);
    return all;
  }
};

class KeepingJournal final : public BatchJournal {
 public:
  explicit KeepingJournal(Steps& steps) : steps_(steps) {}
  void record(BatchStep step) override {
    const MutexLock lock(steps_.mutex);
    steps_.all.push_back(std::move(step));
  }
  void wait_for_room() override {}
  std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                          const std::function<bool(const ResultRow&)>& visit) override {
    std::uint64_t consumed = 0;
    for (; consumed < max_rows; ++consumed) {
      if (!visit({first + consumed, JobStatus::kOk, "from the journal"})) break;
    }
    return consumed;
  }

 private:
  Steps& steps_;
};

class BatchJournalTest : public PoolFixture {
 protected:
  std::shared_ptr<Batch> make_journaled(Handler& run, BatchOptions options = {}) {
    return std::make_shared<Batch>(std::move(options), run, std::make_unique<RangePayloads>(0), nullptr,
                                   std::make_unique<KeepingJournal>(steps));
  }

  // Looks whether the steps are what a journal may rely on, and gives how often each job ended.
  std::map<std::uint64_t, int> check_steps(const Batch& batch) {
    std::map<std::uint64_t, int> ended;
    std::uint64_t sum = 0;
    std::uint64_t rows = 0;
    const std::vector<BatchStep> all = steps.get();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const BatchStep& step = all[i];
      EXPECT_EQ(step.number, i);
      for (const IndexRange& range : step.ended) {
        for (std::uint64_t index = range.low; index < range.high; ++index) ++ended[index];
        sum += range.size();
      }
      EXPECT_EQ(step.totals.total(), sum) << "after step " << i;
      if (step.rows.rows != 0) {
        EXPECT_EQ(step.rows.first_row, rows);
      }
      rows += step.rows.rows;
      EXPECT_EQ(step.row_count, rows);
      EXPECT_EQ(step.finished_at != 0, i + 1 == all.size()) << "step " << i << " of " << all.size();
    }
    const BatchStatus status = batch.status();
    EXPECT_EQ(all.back().totals.total(), status.jobs);
    EXPECT_EQ(all.back().totals.failed(), status.failed);
    EXPECT_EQ(status.rows, rows);
    return ended;
  }

  Steps steps;
};

class KeepJournalTest : public BatchJournalTest, public ::testing::WithParamInterface<Keep> {};

TEST_P(KeepJournalTest, TellsOfEachJobOnceWhateverIsKept) {
  constexpr std::uint64_t kJobs = 30'000;
  Handler& run = handler([](JobContext& context, std::string_view) {
    if (context.index() % 7 == 0) context.fail("seven");
  });
  BatchOptions options;
  options.keep = GetParam();
  auto batch = make_journaled(run, options);
  lane.submit(batch, kJobs, /*open=*/false);
  wait_over(*batch);
  const auto ended = check_steps(*batch);
  EXPECT_EQ(ended.size(), kJobs);
  for (const auto& [index, times] : ended) ASSERT_EQ(times, 1) << index;
  EXPECT_EQ(steps.get().back().totals.failed(), (kJobs + 6) / 7);
}

INSTANTIATE_TEST_SUITE_P(All, KeepJournalTest, ::testing::Values(Keep::kAll, Keep::kFailures, Keep::kNone),
                         [](const auto& tested) {
                           return std::string(tested.param == Keep::kAll        ? "All"
                                              : tested.param == Keep::kFailures ? "Failures"
                                                                                : "None");
                         });

// The monitor publishes in a worker's place, in the middle of a burst.
TEST_F(BatchJournalTest, TellsOfJobsThatEndedBeforeALongOne) {
  Gate gate;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.index() == 5'000) gate.pass();
  });
  auto batch = make_journaled(run);
  lane.submit(batch, 10'000, /*open=*/false);
  // What lies behind it in the burst that its worker holds waits with it.
  wait_until([&] { return batch->status().ok >= 9'700; }, "nearly all but one have ended");
  std::map<std::uint64_t, int> ended;
  for (const BatchStep& step : steps.get()) {
    for (const IndexRange& range : step.ended) {
      for (std::uint64_t index = range.low; index < range.high; ++index) ++ended[index];
    }
  }
  EXPECT_GE(ended.size(), 9'700u);
  EXPECT_EQ(ended.begin()->first, 0u);
  EXPECT_FALSE(ended.contains(5'000));
  gate.open();
  wait_over(*batch);
  check_steps(*batch);
}

TEST_F(BatchJournalTest, TellsOfJobsThatNeverRan) {
  Handler& run = handler([](JobContext&, std::string_view) {});
  auto batch = make_journaled(run);
  lane.pause(*batch);
  lane.submit(batch, 100, /*open=*/false);
  lane.cancel(*batch, "no");
  const auto ended = check_steps(*batch);
  EXPECT_EQ(ended.size(), 100u);
  const BatchStep last = steps.get().back();
  EXPECT_TRUE(last.cancelled);
  EXPECT_EQ(last.stop_reason, "no");
  EXPECT_EQ(last.totals.count(JobStatus::kCancelled), 100u);
}

TEST_F(BatchJournalTest, TheEndOfAnEmptyBatchIsAStep) {
  auto batch = make_journaled(handler([](JobContext&, std::string_view) {}));
  lane.submit(batch, 0, /*open=*/false);
  EXPECT_EQ(steps.get().size(), 1u);
  check_steps(*batch);
}

TEST_F(BatchJournalTest, JobsMayEnterTheRingLongAfterTheRecord) {
  std::atomic<int> ran = 0;
  auto batch = make_journaled(handler([&](JobContext&, std::string_view) { ++ran; }));
  EXPECT_EQ(batch->jobs_added(10), 0u);
  EXPECT_EQ(batch->jobs_added(5), 10u);
  batch->close();
  EXPECT_EQ(batch->status().queued, 15u);
  EXPECT_EQ(batch->status().state, BatchState::kQueued);
  const IndexRange first{0, 10};
  lane.enqueue(batch, {&first, 1}, /*open=*/true);
  wait_until([&] { return batch->status().ok == 10; }, "the first have ended");
  EXPECT_FALSE(batch->is_over());
  lane.enqueue_jobs(*batch, {10, 15});
  lane.enqueue_close(*batch);
  wait_over(*batch);
  EXPECT_EQ(ran, 15);
}

TEST_F(BatchJournalTest, WhatIsCancelledBeforeItEntersTheRingNeverRuns) {
  std::atomic<int> ran = 0;
  auto batch = make_journaled(handler([&](JobContext&, std::string_view) { ++ran; }));
  batch->jobs_added(10);
  batch->close();
  EXPECT_EQ(lane.cancel(*batch, "no"), 10u);
  EXPECT_FALSE(batch->is_over());
  const IndexRange all{0, 10};
  lane.enqueue(batch, {&all, 1}, /*open=*/false);
  wait_over(*batch);  // a worker may claim some of them before all are counted
  EXPECT_EQ(batch->status().state, BatchState::kCancelled);
  EXPECT_EQ(batch->status().cancelled, 10u);
  EXPECT_EQ(ran, 0);
}

TEST_F(BatchJournalTest, WithdrawnJobsWereNeverThere) {
  auto batch = make_journaled(handler([](JobContext&, std::string_view) {}));
  batch->jobs_added(10);
  batch->jobs_added(5);
  batch->jobs_withdrawn(5);
  batch->close();
  const IndexRange all{0, 10};
  lane.enqueue(batch, {&all, 1}, /*open=*/false);
  wait_over(*batch);
  EXPECT_EQ(batch->status().jobs, 10u);
}

TEST_F(BatchJournalTest, ARestoredBatchRunsJustWhatIsLeftAndKnowsThatItMayHaveRunBefore) {
  Mutex mutex;
  std::vector<std::uint64_t> ran;
  std::atomic<std::uint32_t> attempt = 0;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    attempt = context.attempt();
    const MutexLock lock(mutex);
    ran.push_back(context.index());
  });
  auto batch = make_journaled(run);
  BatchHistory history;
  history.jobs = 100;
  history.closed = true;
  history.attempt = 3;
  history.rows = 90;
  history.steps = 4;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 85;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kError)] = 5;
  history.submitted_at = 1000;
  history.started_at = 2000;
  batch->restore(history);
  const std::vector<IndexRange> left{{3, 5}, {50, 57}, {99, 100}};
  lane.enqueue(batch, left, /*open=*/false);
  wait_over(*batch);
  std::ranges::sort(ran);
  EXPECT_THAT(ran, ::testing::ElementsAre(3, 4, 50, 51, 52, 53, 54, 55, 56, 99));
  EXPECT_EQ(attempt, 3u);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.ok, 95u);
  EXPECT_EQ(status.failed, 5u);
  EXPECT_EQ(status.rows, 100u);
  EXPECT_EQ(status.submitted_at, 1000);
  EXPECT_EQ(status.started_at, 2000);
  EXPECT_EQ(steps.get().front().number, 4u);
  // Rows of the earlier process come from the journal, in one sequence with those of this one.
  const std::vector<Row> rows = rows_of(*batch);
  ASSERT_EQ(rows.size(), 100u);
  EXPECT_EQ(rows[89].output, "from the journal");
  EXPECT_EQ(rows[90].output, "");
}

// Twice the same rows, though the memory lets go of them in between; what it has not it does not
// pretend to.
TEST_F(BatchJournalTest, ResultsInMemoryStayWhatTheyAreAndAreToldFromThoseThatAreNot) {
  Handler nothing("nothing", "", [](JobContext&, std::string_view) {});
  const auto batch = make_journaled(nothing);
  batch->jobs_added(10);
  batch->jobs_dropped({{IndexRange{0, 4}}});
  batch->jobs_dropped({{IndexRange{4, 10}}});
  const auto segments = batch->results().in_memory(2, 5);
  ASSERT_TRUE(segments.has_value());
  batch->drop_rows_before(4);
  std::vector<std::uint64_t> indexes;
  ResultLog::visit(*segments, 2, 5, [&](const ResultRow& row) {
    indexes.push_back(row.index);
    return true;
  });
  EXPECT_EQ(indexes, (std::vector<std::uint64_t>{2, 3, 4, 5, 6}));
  EXPECT_FALSE(batch->results().in_memory(3, 5).has_value());
  EXPECT_TRUE(batch->results().in_memory(4, 5).has_value());
  EXPECT_TRUE(batch->results().in_memory(10, 5).has_value()) << "behind the last there is nothing to read";
}

TEST_F(BatchJournalTest, ARestoredOpenBatchTakesMoreJobsBehindThoseThatItHad) {
  Mutex mutex;
  std::vector<std::uint64_t> ran;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    const MutexLock lock(mutex);
    ran.push_back(context.index());
  });
  auto batch = make_journaled(run);
  BatchHistory history;
  history.jobs = 10;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 10;
  batch->restore(history);
  lane.enqueue(batch, {}, /*open=*/true);
  EXPECT_EQ(batch->status().state, BatchState::kOpen);
  EXPECT_TRUE(lane.add_jobs(*batch, 2));
  lane.close(*batch);
  wait_over(*batch);
  std::ranges::sort(ran);
  EXPECT_THAT(ran, ::testing::ElementsAre(10, 11));
}

TEST_F(BatchJournalTest, ARestoredBatchThatWasCancelledDropsWhatIsLeft) {
  auto batch = make_journaled(handler([](JobContext&, std::string_view) { FAIL(); }));
  BatchHistory history;
  history.jobs = 10;
  history.closed = history.cancelled = true;
  batch->restore(history);
  const IndexRange left{0, 10};
  lane.enqueue(batch, {&left, 1}, /*open=*/false);
  wait_over(*batch);
  EXPECT_EQ(batch->status().cancelled, 10u);
}

}  // namespace
}  // namespace locksley
