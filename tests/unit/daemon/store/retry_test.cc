// Failed, retried and requeued jobs, as a store returns them.
#include <gmock/gmock.h>

#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using ::testing::ElementsAre;
using testing::is_same;
using testing::StepMaker;
using testing::StoreBench;
using Operation = testing::FaultyFileSystem::Operation;

constexpr std::uint64_t kSequence = 1;
constexpr std::uint64_t kJobs = 10;

class StoreRetryTest : public ::testing::Test {
 protected:
  StoreRetryTest() {
    bench.open();
    AcceptBatch accept = accept_batch(kSequence, kJobs);
    accept.row.options.retries = 3;
    bench.commit(std::move(accept));
  }

  // Jobs 0 to 5 are ok, 6 to 9 have failed; the batch has ended.
  void end() {
    bench.put(steps.end_jobs({0, 6}));
    RecordStep failures = steps.end_jobs({6, 10}, JobStatus::kError);
    failures.step.failed = {{6, 10}};
    bench.put(StepMaker::as_last(std::move(failures)));
    bench.flush();
  }
  RecordStep retry() {
    return steps.requeue({{6, 10}}, {{{6, 10}, {1, 1}}}, std::vector<IndexRange>{{0, 6}});
  }

  // Restarts, and compares what the store has with the model.
  StoredBatch restart() {
    bench.close();
    auto opened = Store::open(bench.options(), testing::silent_log());
    EXPECT_TRUE(opened.has_value());
    StoredBatch found;
    EXPECT_TRUE((*opened)->recover([&](StoredBatch batch) { found = std::move(batch); }));
    opened->reset();
    EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
    return found;
  }

  StoreBench bench;
  StepMaker steps{kSequence};
};

TEST_F(StoreRetryTest, TriesAreKept) {
  bench.put(steps.end_jobs({0, 3}));
  bench.put(steps.retry_jobs({{{3, 5}, {1, 0}}}));
  bench.put(steps.retry_jobs({{{4, 5}, {2, 0}}}));
  bench.flush();
  const StoredBatch found = restart();
  EXPECT_EQ(found.accepted.options.retries, 3u);
  EXPECT_THAT(found.left, ElementsAre(IndexRange{3, 10}));
  EXPECT_EQ(found.history.retried, 3u);
  EXPECT_THAT(found.history.job_attempts,
              ElementsAre(JobAttempts{{3, 4}, {1, 0}}, JobAttempts{{4, 5}, {2, 0}}));
}

TEST_F(StoreRetryTest, ABatchThatIsOverSaysWhichJobsFailed) {
  end();
  EXPECT_THAT(restart().history.failed, ElementsAre(IndexRange{6, 10}));
}

TEST_F(StoreRetryTest, WhatWasOverGoesOnWithExactlyItsFailedJobs) {
  end();
  bench.put(retry());
  bench.flush();
  StoredBatch found = restart();
  EXPECT_EQ(found.history.finished_at, 0);
  EXPECT_EQ(found.history.totals.total(), 6u);
  EXPECT_EQ(found.history.superseded, 10u);
  EXPECT_EQ(found.history.rows, 10u) << "what was read stays where it is";
  EXPECT_THAT(found.left, ElementsAre(IndexRange{6, 10}));
  EXPECT_TRUE(found.history.failed.empty());
  EXPECT_THAT(found.history.job_attempts, ElementsAre(JobAttempts{{6, 10}, {1, 1}}));

  // The batch ends again, with one job that fails once more and is queued again.
  bench.put(steps.end_jobs({6, 9}));
  RecordStep failure = steps.end_jobs({9, 10}, JobStatus::kTimeout);
  failure.step.failed = {{9, 10}};
  bench.put(StepMaker::as_last(std::move(failure)));
  bench.flush();
  found = restart();
  EXPECT_NE(found.history.finished_at, 0);
  EXPECT_THAT(found.history.failed, ElementsAre(IndexRange{9, 10}));
  bench.put(steps.requeue({{9, 10}}, {{{9, 10}, {2, 2}}}, std::vector<IndexRange>{{0, 9}}));
  bench.flush();
  EXPECT_THAT(restart().left, ElementsAre(IndexRange{9, 10}));
  bench.put(StepMaker::as_last(steps.end_jobs({9, 10})));
  bench.flush();
  found = restart();
  EXPECT_EQ(found.history.totals.count(JobStatus::kOk), kJobs);
  // Its payloads have been deleted, and everything else is deleted with it.
  bench.commit(ForgetBatch{kSequence});
  bench.close();
  EXPECT_TRUE(testing::rows_of_nothing(bench.raw(), bench.model).empty());
  EXPECT_EQ(testing::count_rows(bench.raw(), kSequence), 0u);
}

TEST_F(StoreRetryTest, EndAndRetryInOneGroupAreAsOneAfterTheOther) {
  bench.disk->hold(Operation::kSync);
  const Ticket blocked = bench.put(accept_batch(2, 1));
  ASSERT_TRUE(bench.disk->await_held());
  bench.put(steps.end_jobs({0, 6}));
  RecordStep failures = steps.end_jobs({6, 10}, JobStatus::kError);
  failures.step.failed = {{6, 10}};
  bench.put(StepMaker::as_last(std::move(failures)));
  bench.put(retry());
  bench.put(steps.end_jobs({7, 8}));
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(blocked).error, "");
  bench.flush();
  bench.close();
  EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
}

TEST_F(StoreRetryTest, AmongJobsThatRunFailedOnesAreQueuedAgain) {
  RecordStep failures = steps.end_jobs({2, 5}, JobStatus::kCrashed);
  failures.step.failed = {{2, 5}};
  bench.put(std::move(failures));
  bench.put(steps.end_jobs({0, 1}));
  bench.put(steps.requeue({{2, 5}}, {{{2, 5}, {1, 1}}}));
  bench.put(steps.end_jobs({3, 4}));
  bench.flush();
  const StoredBatch found = restart();
  EXPECT_THAT(found.left, ElementsAre(IndexRange{1, 3}, IndexRange{4, 10}));
  EXPECT_EQ(found.history.superseded, 4u);
}

TEST_F(StoreRetryTest, JobsQueuedAgainThatHadNotEndedAreDamage) {
  bench.put(steps.end_jobs({0, 3}));
  bench.put(steps.requeue({{2, 5}}, {}));
  bench.flush();
  bench.close();
  const auto picture = bench.try_recover();
  ASSERT_FALSE(picture.has_value());
  EXPECT_THAT(picture.error(), ::testing::HasSubstr("its results and its counters disagree"));
}

}  // namespace
}  // namespace locksley::daemon
