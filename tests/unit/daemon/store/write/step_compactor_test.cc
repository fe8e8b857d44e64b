// The steps of a batch with very many: how many rows they take, and that these say what the steps
// said.
#include "daemon/store/write/step_compactor.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "daemon/store/rows/step_replay.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using testing::is_same;
using ::testing::IsEmpty;
using testing::StepMaker;
using testing::StoreBench;

constexpr std::uint64_t kStream = 1;
constexpr std::uint64_t kDueAfter = 50;  // after so many the steps of these tests are merged

// A batch that stays open, and a store that merges its steps early.
class StepCompactorTest : public ::testing::Test {
 protected:
  StepCompactorTest() {
    bench.compact_steps = kDueAfter;
    bench.open();
    bench.commit(testing::open_batch(kStream));
  }

  // An ADD of so many jobs.
  void add(std::uint64_t jobs) {
    bench.commit(testing::add_jobs(kStream, jobs_, std::vector<std::string>(jobs, "payload")));
    jobs_ += jobs;
  }
  void put(RecordStep step) {
    bench.put(std::move(step));
    // Each in a group of its own: what the database does not have yet is not merged.
    bench.flush();
  }
  std::size_t step_rows() const {
    return static_cast<std::size_t>(std::ranges::count(bench.raw(), kStepKey, &testing::RawRow::kind));
  }
  StoredBatch restart() {
    bench.close();
    rows_ = step_rows();
    auto opened = Store::open(bench.options(), testing::silent_log());
    EXPECT_TRUE(opened.has_value());
    StoredBatch found;
    EXPECT_TRUE((*opened)->recover([&](StoredBatch batch) { found = std::move(batch); }));
    opened->reset();
    EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
    return found;
  }

  StoreBench bench;
  StepMaker steps{kStream};
  std::uint64_t jobs_ = 0;
  std::size_t rows_ = 0;  // of steps, that the last start read
};

TEST_F(StepCompactorTest, ABatchOfManyAddsHasFewRowsOfSteps) {
  for (std::uint64_t job = 0; job < 500; ++job) {
    add(1);
    put(steps.end_jobs({job, job + 1}));
  }
  const StoredBatch found = restart();
  EXPECT_LE(rows_, kDueAfter + 2);
  EXPECT_EQ(found.history.steps, 500u);
  EXPECT_EQ(found.history.totals.total(), 500u);
  EXPECT_THAT(found.left, IsEmpty());
  // It goes on, and ends.
  add(1);
  put(steps.end_jobs({500, 501}));
  put(steps.end_batch());
  restart();
  EXPECT_EQ(rows_, 0u);
}

TEST_F(StepCompactorTest, JobsThatEndInAnyOrderAreKept) {
  add(600);
  for (std::uint64_t job = 0; job < 600; ++job) {
    if (const std::uint64_t index = job * 7 % 600; index % 3 != 0) put(steps.end_jobs({index, index + 1}));
  }
  const StoredBatch found = restart();
  EXPECT_LE(rows_, kDueAfter + 2);
  EXPECT_EQ(found.left.size(), 200u);
}

TEST_F(StepCompactorTest, TheAttemptsOfJobsThatEndedWellTakeNoRoom) {
  add(300);
  for (std::uint64_t job = 0; job < 300; job += 2) {
    put(steps.retry_jobs({{{job, job + 1}, {1, 0}}}));
    if (job != 100) put(steps.end_jobs({job, job + 1}));
  }
  EXPECT_THAT(restart().history.job_attempts, ElementsAre(JobAttempts{{100, 101}, {1, 0}}));
  EXPECT_LE(rows_, kDueAfter + 2);
}

TEST_F(StepCompactorTest, TheAttemptsOfOneJobAreOneEntry) {
  add(1);
  for (std::uint32_t attempt = 1; attempt <= 200; ++attempt) {
    put(steps.retry_jobs({{{0, 1}, {attempt, 0}}}));
  }
  EXPECT_THAT(restart().history.job_attempts, ElementsAre(JobAttempts{{0, 1}, {200, 0}}));
  EXPECT_LE(rows_, kDueAfter + 2);
}

TEST_F(StepCompactorTest, FailedJobsAndJobsQueuedAgainAreKept) {
  add(400);
  for (std::uint64_t job = 0; job < 200; ++job) {
    const bool fails = job % 10 == 0;
    RecordStep step = steps.end_jobs({job, job + 1}, fails ? JobStatus::kError : JobStatus::kOk);
    if (fails) step.step.failed = {{job, job + 1}};
    put(std::move(step));
  }
  std::vector<IndexRange> failed;
  std::vector<JobAttempts> attempts;
  for (std::uint64_t job = 0; job < 200; job += 10) {
    failed.push_back({job, job + 1});
    attempts.push_back({{job, job + 1}, {1, 1}});
  }
  put(steps.requeue(failed, attempts));
  for (std::uint64_t job = 200; job < 300; ++job) put(steps.end_jobs({job, job + 1}));
  const StoredBatch found = restart();
  EXPECT_LE(rows_, kDueAfter + 2);
  EXPECT_EQ(found.history.job_attempts, attempts);
  EXPECT_EQ(found.history.retry_rounds, 1u);
  EXPECT_EQ(found.left.size(), 21u);
}

// A row that grows is not written again at each turn: all that is written stays a small multiple of
// it.
TEST_F(StepCompactorTest, ALargeRowIsWrittenSeldom) {
  add(20'000);
  for (std::uint64_t job = 0; job < 20'000; job += 2) {
    bench.put(steps.end_jobs({job, job + 1}));
    if (job % 50 == 0) bench.flush();
  }
  EXPECT_EQ(restart().left.size(), 10'000u);
  const std::uint64_t row_bytes = 10'000 * 4;
  EXPECT_LE(rows_, row_bytes / 32 + 2 * kDueAfter);
}

TEST(StepReplayTest, AGapBetweenStepsIsAContradiction) {
  StepReplay replay;
  EXPECT_TRUE(replay.apply(7, {})) << "the first may stand for those before it";
  EXPECT_TRUE(replay.apply(8, {}));
  EXPECT_FALSE(replay.apply(10, {}));
}

TEST(StepReplayTest, WhatContradictsItselfIsNotMerged) {
  StepReplay replay;
  StepRow step;
  step.ended = {{0, 2}};
  EXPECT_TRUE(replay.apply(0, step));
  EXPECT_FALSE(replay.merged().has_value()) << "no counter has these two jobs";
}

}  // namespace
}  // namespace locksley::daemon
