// A batch whose account of failures is full, or half full.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/result_account.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/batch_failures.h"
#include "tests/support/batch_fixture.h"

namespace locksley {
namespace {

constexpr std::uint64_t kFailureLimit = 10'000;

class FailureLimitTest : public testing::BatchFixture {
 protected:
  FailureLimitTest() { failures.set_limit(kFailureLimit); }
  std::shared_ptr<Batch> begin(std::uint64_t jobs, std::uint32_t retries) {
    BatchOptions options;
    options.results = &results;
    options.failures = &failures;
    options.retries = retries;
    options.keep = Keep::kNone;
    auto batch = make(options);
    batch->jobs_added(jobs);
    batch->close();
    return batch;
  }

  // Destroyed after the batches.
  ResultAccount results;
  ResultAccount failures;
};

TEST_F(FailureLimitTest, WhatIsKeptAboutFailuresStopsNoJob) {
  constexpr std::uint64_t kJobs = 10'000;
  results.set_limit(kFailureLimit);
  const auto batch = begin(kJobs, 0);
  for (std::uint64_t i = 0; i < kJobs; ++i) {
    publish(*batch, {{i, i % 2 == 0 ? JobStatus::kError : JobStatus::kOk, ""}});
    ASSERT_FALSE(batch->is_at_result_limit()) << i;
  }
  EXPECT_TRUE(batch->is_at_failure_limit());
  EXPECT_EQ(results.bytes(), 0U);
  EXPECT_GE(failures.bytes(), kJobs / 2 * sizeof(IndexRange));
  EXPECT_EQ(batch->failures().charged_bytes(), failures.bytes());
  batch->refund_results();
  EXPECT_EQ(failures.bytes(), 0U);
}

TEST_F(FailureLimitTest, AtTheLimitFailedJobsAreNotRetriedAndCostLittle) {
  constexpr std::uint64_t kJobs = 10'000;
  const auto batch = begin(kJobs, 5);
  for (std::uint64_t i = 0; i < kJobs; i += 2) {
    publish(*batch, {{i, JobStatus::kError, ""}});
    publish(*batch, {{i + 1, JobStatus::kOk, ""}});
  }
  const BatchStatus status = batch->status();
  EXPECT_GT(status.waiting, 0U) << "below the limit they are";
  EXPECT_GT(status.failed, 0U);
  EXPECT_EQ(status.waiting + status.failed, kJobs / 2);
  EXPECT_LE(failures.bytes(), kFailureLimit + 128 + status.failed * 2 * sizeof(IndexRange));
}

// Else the failures of one batch would take the retries of all others of its user.
TEST_F(FailureLimitTest, AtTheLimitABatchWithFewFailuresStillRetriesThem) {
  constexpr std::uint32_t kRetries = 2;
  constexpr std::uint64_t kFew = 5;
  const auto batch = begin(1'000, kRetries);
  failures.charge(kFailureLimit);  // what other batches keep
  for (std::uint32_t attempt = 1; attempt <= kRetries; ++attempt) {
    for (std::uint64_t i = 0; i < kFew; ++i) publish(*batch, {{2 * i, JobStatus::kError, ""}});
    EXPECT_EQ(batch->status().waiting, kFew) << attempt;
    ASSERT_EQ(batch->take_due_retries(Nanoseconds::max()).size(), kFew);
    EXPECT_EQ(batch->attempts().of(0), attempt + 1);
  }
  publish(*batch, {{0, JobStatus::kError, ""}});
  EXPECT_EQ(batch->status().failed, 1U) << "it had no retries left";
  for (std::uint64_t i = 1; i < kFew; ++i) publish(*batch, {{2 * i, JobStatus::kOk, ""}});
  std::vector<testing::Row> many;
  for (std::uint64_t i = kFew; i < 500; ++i) many.push_back({2 * i, JobStatus::kError, ""});
  publish(*batch, many);
  const std::uint64_t retried = batch->status().waiting;
  EXPECT_GT(retried, 2 * kFew);
  EXPECT_LT(retried, 20U);
  EXPECT_EQ(batch->status().failed, 1 + many.size() - retried);
  publish(*batch, {{1, JobStatus::kError, ""}});
  EXPECT_EQ(batch->status().waiting, retried) << "there is no room for more";
  EXPECT_EQ(batch->failures().charged_bytes() + kFailureLimit, failures.bytes());
  failures.refund(kFailureLimit);
}

TEST_F(FailureLimitTest, AttemptsOfJobsThatFailForGoodAtTheLimitAreForgotten) {
  const auto batch = begin(3, 1);
  publish(*batch, {{0, JobStatus::kError, ""}});
  publish(*batch, {{2, JobStatus::kError, ""}});
  ASSERT_EQ(batch->take_due_retries(Nanoseconds::max()).size(), 2U);
  EXPECT_EQ(batch->attempts().of(0), 2U);
  publish(*batch, {{0, JobStatus::kError, ""}});
  EXPECT_EQ(batch->attempts().of(0), 2U) << "a RETRY goes on from here";
  failures.charge(kFailureLimit);  // what other batches keep
  publish(*batch, {{2, JobStatus::kError, ""}});
  EXPECT_EQ(batch->attempts().of(2), 1U);
  failures.refund(kFailureLimit);
}

TEST_F(FailureLimitTest, NotesLeaveHalfOfTheRoom) {
  const auto batch = begin(100, 0);
  EXPECT_TRUE(batch->set_note(0, "early"));
  failures.charge(kFailureLimit / 2);
  EXPECT_FALSE(batch->set_note(1, "late"));
  EXPECT_EQ(batch->attempts().note(0), "early");
  EXPECT_EQ(batch->attempts().note(1), "");
  EXPECT_FALSE(batch->set_note(0, "later")) << "nor is one that has been replaced";
  EXPECT_EQ(batch->attempts().note(0), "");
  EXPECT_TRUE(batch->set_note(0, "")) << "there was none to keep";
  failures.refund(kFailureLimit / 2);
  EXPECT_TRUE(batch->set_note(1, "late"));
}

// A store has it, and a look at it would fill the account, which nothing frees then.
TEST_F(FailureLimitTest, ABatchThatWasOverWhenItWasRestoredCountsOnceItsJobsAreQueuedAgain) {
  BatchOptions options;
  options.failures = &failures;
  BatchHistory history;
  history.jobs = 4;
  history.closed = true;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kError)] = 2;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 2;
  history.failed_unread = true;
  history.job_attempts = {{{0, 1}, {3, 3}}};
  history.notes = {{0, "a note"}};
  history.finished_at = 1;
  const auto batch = make(options);
  failures.charge(kFailureLimit);
  batch->restore(history);
  failures.refund(kFailureLimit);
  EXPECT_EQ(batch->attempts().of(0), 4U) << "kept, although the account was full";
  const auto list = std::make_shared<const std::vector<IndexRange>>(std::vector<IndexRange>{{0, 1}, {2, 3}});
  ASSERT_TRUE(batch->failures().set_list(list, 2));
  EXPECT_EQ(failures.bytes(), 0U);
  batch->failures().leave_out_list();
  EXPECT_TRUE(batch->failures().lacks_list());
  EXPECT_EQ(list.use_count(), 1);
  EXPECT_EQ(batch->failures().begin_requeue().jobs, 0U);
  ASSERT_TRUE(batch->failures().set_list(list, 2));
  ASSERT_EQ(batch->failures().begin_requeue().jobs, 2U);
  EXPECT_GT(failures.bytes(), 2 * sizeof(IndexRange));
  EXPECT_EQ(batch->failures().charged_bytes(), failures.bytes());
  batch->refund_results();
  batch->failures().requeue();
  EXPECT_EQ(failures.bytes(), 0U) << "it leaves";
}

// Else users with little would keep nothing where others keep much.
TEST_F(FailureLimitTest, AUserWithLittleKeepsItsNotesAndRetries) {
  ResultAccount all;
  all.set_limit(kFailureLimit);
  ResultAccount own(&all);
  ResultAccount other(&all);
  own.set_limit(kFailureLimit, kFailureLimit / 8);
  other.charge(kFailureLimit);
  EXPECT_TRUE(all.is_full());
  EXPECT_FALSE(own.is_full());
  EXPECT_FALSE(own.is_half_full());
  own.charge(kFailureLimit / 8);
  EXPECT_FALSE(own.is_full());
  EXPECT_TRUE(own.is_half_full());
  own.charge(1);
  EXPECT_TRUE(own.is_full());
  EXPECT_FALSE(own.is_full_without(1));
  EXPECT_TRUE(own.is_full_without(0));
  own.refund(kFailureLimit / 8 + 1);
  other.refund(kFailureLimit);
}

}  // namespace
}  // namespace locksley
