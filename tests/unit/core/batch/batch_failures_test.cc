// The failures of a batch: reading them alone, and queueing some of them again.
#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"
#include "core/batch/batch.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/batch_failures.h"
#include "core/batch/batch_results.h"
#include "tests/support/batch_fixture.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;

using BatchFailuresTest = testing::BatchFixture;

// RETRY with indexes.
TEST_F(BatchFailuresTest, SomeFailedJobsAreQueuedAgainAndTheOthersStayFailed) {
  using Answer = Batch::Failures::RequeueCheck::Answer;
  const auto batch = make();
  batch->jobs_added(6);
  batch->close();
  publish(*batch, {{0, JobStatus::kError, "a"},
                   {1, JobStatus::kError, "b"},
                   {2, JobStatus::kOk, ""},
                   {3, JobStatus::kCrashed, "c"},
                   {4, JobStatus::kOk, ""},
                   {5, JobStatus::kTimeout, "d"}});
  ASSERT_TRUE(batch->is_over());
  const std::vector<IndexRange> wrong{{1, 3}, {4, 5}};
  EXPECT_EQ(batch->failures().check_requeue(wrong).answer, Answer::kNotFailed);
  EXPECT_EQ(batch->failures().check_requeue(wrong).job, 2U) << "the first of them";
  const std::vector<IndexRange> some{{1, 2}, {5, 6}};
  EXPECT_EQ(batch->failures().check_requeue(some).answer, Answer::kYes);
  const auto begun = batch->failures().begin_requeue(some);
  EXPECT_EQ(begun.jobs, 2U);
  EXPECT_FALSE(batch->is_over());
  EXPECT_EQ(batch->status().failed, 2U);
  EXPECT_EQ(batch->status().queued, 2U);
  EXPECT_TRUE(batch->status().superseded.covers(1, 1));
  EXPECT_FALSE(batch->status().superseded.covers(0, 0)) << "its failure counts";
  EXPECT_EQ(batch->failures().requeue(), some);
  EXPECT_EQ(batch->status().retry_rounds, 1U);
  const BatchStep& step = journal.steps.back();
  EXPECT_TRUE(step.is_base);
  EXPECT_EQ(step.requeued, some);
  EXPECT_THAT(step.failed, ElementsAre(IndexRange{0, 1}, IndexRange{3, 4}));
  EXPECT_EQ(count_of(step.ended), 4U);
  EXPECT_EQ(step.superseded, 0U);
  EXPECT_THAT(step.superseded_jobs, ElementsAre(SupersededJobs{{1, 2}, 6}, SupersededJobs{{5, 6}, 6}));
  EXPECT_EQ(batch->attempts().of(1), 2U);
  EXPECT_EQ(batch->attempts().of(0), 1U);
  EXPECT_EQ(batch->failures().check_requeue(some).answer, Answer::kNotFailed) << "they are queued";
  publish(*batch, {{1, JobStatus::kOk, "good"}, {5, JobStatus::kTimeout, "again"}});
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().failed, 3U);
  EXPECT_EQ(batch->failures().jobs(), (std::vector<IndexRange>{{0, 1}, {3, 4}, {5, 6}}));
  EXPECT_THAT(journal.steps.back().superseded_jobs, ::testing::SizeIs(2)) << "the last step has all";
  EXPECT_FALSE(batch->status().superseded.covers(7, 5)) << "its later failure counts";
  // All that have failed: the list is not needed any more.
  EXPECT_EQ(batch->failures().begin_requeue().jobs, 3U);
  batch->failures().requeue();
  EXPECT_EQ(batch->status().retry_rounds, 2U);
  EXPECT_EQ(batch->status().superseded.below, 8U);
  EXPECT_EQ(batch->status().superseded.ranges(), 0U);
}

TEST_F(BatchFailuresTest, WhichOfManyScatteredJobsAreQueuedAgainIsRight) {
  using Answer = Batch::Failures::RequeueCheck::Answer;
  constexpr std::uint64_t kJobs = 300'000;
  const auto batch = make();
  batch->jobs_added(kJobs);
  batch->close();
  // Two of three fail, and a long range of jobs.
  const auto fails = [](std::uint64_t job) { return job % 3 != 0 || (job > 70'000 && job < 140'000); };
  std::vector<testing::Row> rows;
  for (std::uint64_t job = 0; job < kJobs; ++job)
    rows.push_back({job, fails(job) ? JobStatus::kError : JobStatus::kOk, ""});
  publish(*batch, rows);
  const std::vector<IndexRange> some{
      {1, 3}, {70'001, 70'002}, {100'000, 100'100}, {139'999, 140'000}, {299'998, 300'000}};
  ASSERT_EQ(batch->failures().check_requeue(some).answer, Answer::kYes);
  for (const IndexRange& wrong :
       {IndexRange{2, 4}, IndexRange{139'999, 140'002}, IndexRange{299'997, 300'000}})
    EXPECT_EQ(batch->failures().check_requeue({&wrong, 1}).answer, Answer::kNotFailed) << wrong.low;
  EXPECT_EQ(batch->failures().begin_requeue(some).jobs, count_of(some));
  batch->failures().requeue();
  std::uint64_t failed = 0;
  for (std::uint64_t job = 0; job < kJobs; ++job) failed += fails(job) ? 1U : 0U;
  EXPECT_EQ(batch->status().failed, failed - count_of(some));
  for (const std::uint64_t job :
       {0U, 1U, 2U, 4U, 70'001U, 70'002U, 100'000U, 100'100U, 139'999U, 299'998U, 299'999U}) {
    const bool is_again = contains(some, job);
    EXPECT_EQ(batch->failures().has(job), std::optional(!is_again && fails(job))) << job;
  }
}

TEST_F(BatchFailuresTest, ARetryOfSomeJobsWhileTheBatchRunsIsNoNewBeginning) {
  const auto batch = make();
  batch->jobs_added(4);
  publish(*batch, {{0, JobStatus::kError, ""}, {1, JobStatus::kError, ""}});
  const std::vector<IndexRange> some{{0, 1}};
  EXPECT_EQ(batch->failures().begin_requeue(some).jobs, 1U);
  EXPECT_EQ(batch->failures().begin_requeue(some).jobs, 0U) << "one at a time";
  publish(*batch, {{2, JobStatus::kError, ""}});
  EXPECT_EQ(journal.steps.back().superseded_jobs.size(), 0U)
      << "nothing is queued again before the second half";
  EXPECT_EQ(batch->failures().requeue(), some);
  EXPECT_FALSE(journal.steps.back().is_base);
  EXPECT_TRUE(journal.steps.back().failed.empty());
  EXPECT_EQ(batch->failures().jobs(), (std::vector<IndexRange>{{1, 3}}));
  EXPECT_EQ(batch->status().failed, 2U);
}

TEST_F(BatchFailuresTest, RowsThatAreNotOkAreReadWithTheirPlaces) {
  const auto batch = make();
  batch->jobs_added(4);
  publish(*batch, {{0, JobStatus::kOk, "a"}, {1, JobStatus::kOk, "b"}});
  publish(*batch, {{2, JobStatus::kError, "c"}, {3, JobStatus::kCancelled, "d"}});
  std::vector<std::pair<std::uint64_t, std::string>> found;
  const auto take = [&](std::uint64_t place, const ResultRow& row) {
    found.emplace_back(place, row.output);
    return true;
  };
  EXPECT_EQ(batch->results().read_others(0, take), 4U);
  EXPECT_THAT(found, ElementsAre(std::pair(2, "c"), std::pair(3, "d")));
  ASSERT_TRUE(batch->results().others_in_memory(0, 10).has_value());
  EXPECT_EQ(batch->results().others_in_memory(0, 10)->end, 4U);
}

}  // namespace
}  // namespace locksley
