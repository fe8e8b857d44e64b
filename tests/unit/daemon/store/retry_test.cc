// Failed, retried and requeued jobs, as a store returns them.
#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "tests/support/failed_jobs.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using ::testing::ElementsAre;
using testing::is_same;
using testing::StepMaker;
using testing::StoreBench;

constexpr std::uint64_t kRetried = 1;
constexpr std::uint64_t kJobs = 10;

class StoreRetryTest : public ::testing::Test {
 protected:
  StoreRetryTest() {
    bench.open();
    AcceptBatch accept = accept_batch(kRetried, kJobs);
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
  StepMaker steps{kRetried};
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
  bench.commit(ForgetBatch{kRetried});
  bench.close();
  EXPECT_TRUE(testing::rows_of_nothing(bench.raw(), bench.model).empty());
  EXPECT_EQ(testing::count_rows(bench.raw(), kRetried), 0u);
}

// Every other job of 2 * `failures` failed.
RecordStep scattered_end(StepMaker& steps, std::uint64_t failures) {
  EndedJobs ended;
  ended.by_status[static_cast<std::size_t>(JobStatus::kOk)] = failures;
  ended.by_status[static_cast<std::size_t>(JobStatus::kError)] = failures;
  RecordStep end = steps.end_jobs({{0, 2 * failures}}, ended, {});
  for (std::uint64_t job = 1; job < 2 * failures; job += 2) end.step.failed.push_back({job, job + 1});
  return StepMaker::as_last(std::move(end));
}

std::size_t failed_rows(const StoreBench& bench) {
  return static_cast<std::size_t>(std::ranges::count(bench.raw(), kFailedKey, &testing::RawRow::kind));
}

// What looks at a batch does not read which of its jobs failed, however many they are.
TEST(StoredFailuresTest, ALongListIsReadByItselfInPartsAndGoesWithARetry) {
  constexpr std::uint64_t kFailures = 200;  // more rows than a part has
  StoreBench bench;
  bench.failed_ranges = 2;
  bench.open();
  bench.commit(accept_batch(kRetried, 2 * kFailures));
  StepMaker steps(kRetried);
  RecordStep end = scattered_end(steps, kFailures);
  const std::vector<IndexRange> failed = end.step.failed;
  bench.put(std::move(end));
  bench.flush();
  const auto loaded = bench.store->load(kRetried);
  ASSERT_TRUE(loaded.has_value()) << loaded.error();
  EXPECT_TRUE(loaded->history.failed.empty());
  EXPECT_TRUE(loaded->history.failed_unread);
  {
    const auto read = testing::read_failed_jobs(*bench.store, kRetried);
    ASSERT_TRUE(read.has_value()) << read.error();
    EXPECT_EQ(*read->ranges, failed);
    EXPECT_EQ(read->jobs, kFailures);
  }
  bench.close();
  EXPECT_EQ(failed_rows(bench), kFailures / 2);

  // Those that did not fail have ended for good.
  std::vector<IndexRange> ended;
  for (std::uint64_t job = 0; job < 2 * kFailures; job += 2) ended.push_back({job, job + 1});
  bench.open();
  bench.put(steps.requeue(failed, {}, ended));
  bench.flush();
  bench.close();
  EXPECT_EQ(failed_rows(bench), 0u);
  EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
}

TEST(StoredFailuresTest, AListGoesWithItsBatch) {
  StoreBench bench;
  bench.failed_ranges = 2;
  bench.open();
  for (const std::uint64_t sequence : {1U, 2U}) {
    StepMaker steps(sequence);
    bench.commit(accept_batch(sequence, 100));
    bench.put(scattered_end(steps, 50));
  }
  bench.commit(ForgetBatch{.sequence = 1, .rows = {.has_one_step = true}});
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.close();
  EXPECT_EQ(failed_rows(bench), 25u) << "those of the other batch";
}

// Earlier versions wrote all of it in the row of the end.
TEST(StoredFailuresTest, AListOfAnEarlierVersionGetsItsRowsAtTheNextStart) {
  StoreBench bench;
  bench.failed_ranges = 1'000'000;
  bench.open();
  bench.commit(accept_batch(kRetried, 100));
  StepMaker steps(kRetried);
  bench.put(scattered_end(steps, 50));
  bench.flush();
  EXPECT_FALSE(bench.store->load(kRetried)->history.failed_unread);
  bench.failed_ranges = 2;
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.flush();
  EXPECT_TRUE(bench.store->load(kRetried)->history.failed_unread);
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.close();
  EXPECT_EQ(failed_rows(bench), 25u);
}

TEST_F(StoreRetryTest, EndAndRetryInOneGroupAreAsOneAfterTheOther) {
  bench.disk->hold_syncs();
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
  EXPECT_THAT(picture.error(), ::testing::HasSubstr("set " + bench.disk->key_of_place() + " to"));
  EXPECT_THAT(picture.error(), ::testing::Not(::testing::HasSubstr("--repair"))) << "it would change nothing";
}

}  // namespace
}  // namespace locksley::daemon
