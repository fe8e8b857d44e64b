// A batch whose account of failures is full, or half full.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

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
