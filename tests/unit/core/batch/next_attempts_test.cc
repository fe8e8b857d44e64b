#include "core/batch/next_attempts.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/base/result_account.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pointee;

using Ranges = std::vector<IndexRange>;

class NextAttemptsTest : public ::testing::Test {
 protected:
  // Two failed attempts, of two retries, of each of these jobs.
  void use_up_retries(IndexRange jobs) {
    for (int i = 0; i < 2; ++i) {
      const Ranges failed{jobs};
      attempts_.judge(failed, 2);
      attempts_.take_due(Nanoseconds::max(), 10);
    }
  }

  HasAttempts has_;
  ResultAccount account_;
  NextAttempts attempts_{has_, &account_};
};

TEST_F(NextAttemptsTest, KnowsNothingAtFirstAndTakesNoMemory) {
  EXPECT_EQ(attempts_.counts_of(3), AttemptCounts{});
  EXPECT_EQ(attempts_.note(3), nullptr);
  EXPECT_EQ(attempts_.with_equal_attempts({3, 9}), (IndexRange{3, 9}));
  EXPECT_EQ(attempts_.leasable_together({3, 9}), (IndexRange{3, 9}));
  EXPECT_EQ(attempts_.waiting(), 0U);
  EXPECT_EQ(attempts_.next_due(), kNever);
  EXPECT_EQ(attempts_.memory_bytes(), 0U);
  EXPECT_FALSE(has_.counts.load());
  EXPECT_FALSE(has_.notes.load());
}

TEST_F(NextAttemptsTest, JobsFailForGoodOnceTheirRetriesAreUsedUp) {
  use_up_retries({2, 4});
  const Ranges failed{{0, 6}};
  const NextAttempts::Judged judged = attempts_.judge(failed, 2);
  EXPECT_THAT(judged.failed, ElementsAre(IndexRange{2, 4}));
  EXPECT_THAT(judged.again, ElementsAre(IndexRange{0, 2}, IndexRange{4, 6}));
  EXPECT_THAT(judged.next,
              ElementsAre(JobAttempts{{0, 2}, {.failed = 1}}, JobAttempts{{4, 6}, {.failed = 1}}));
  EXPECT_EQ(attempts_.waiting(), 4U);
  EXPECT_TRUE(has_.counts.load());
}

TEST_F(NextAttemptsTest, AFullAccountLeavesRoomForAFewRangesAlone) {
  account_.set_limit(0);
  Ranges failed;
  for (std::uint64_t index = 0; index < 200; index += 2) failed.push_back({index, index + 1});
  const NextAttempts::Judged judged = attempts_.judge(failed, 2);
  EXPECT_FALSE(judged.again.empty());
  EXPECT_LE(attempts_.memory_bytes(), NextAttempts::kSpareBytes + sizeof(Retries));
  EXPECT_EQ(judged.again.size() + judged.failed.size(), failed.size());
  // What is there is used up: not even these are counted again.
  attempts_.take_due(Nanoseconds::max(), 1000);
  Ranges others;
  for (std::uint64_t index = 1000; index < 1200; index += 2) others.push_back({index, index + 1});
  attempts_.judge(others, 2);
  EXPECT_LE(attempts_.memory_bytes(), NextAttempts::kSpareBytes + sizeof(Retries));
}

TEST_F(NextAttemptsTest, NoNoteIsKeptOnceTheAccountIsHalfFull) {
  EXPECT_TRUE(attempts_.set_note(1, "half way"));
  EXPECT_THAT(attempts_.note(1), Pointee(std::string("half way")));
  account_.set_limit(100);
  account_.charge(50);
  EXPECT_FALSE(attempts_.set_note(1, "further"));
  EXPECT_EQ(attempts_.note(1), nullptr) << "an older note would send the job back";
  EXPECT_TRUE(attempts_.set_note(1, "")) << "to remove a note needs no room";
  account_.refund(1);
  EXPECT_TRUE(attempts_.set_note(1, "further"));
  account_.refund(49);
}

TEST_F(NextAttemptsTest, WhatJobsThatFailedLeaveIsKeptUnlessTheAccountIsFull) {
  const Ranges all{{0, 3}};
  const Ranges failed{{1, 2}};
  attempts_.judge(all, 5);
  for (std::uint64_t index = 0; index < 3; ++index) attempts_.set_note(index, "note");

  attempts_.jobs_ended(all, failed);
  EXPECT_EQ(attempts_.counts_of(0), AttemptCounts{});
  EXPECT_EQ(attempts_.counts_of(1).failed, 1U);
  EXPECT_THAT(attempts_.notes(), ElementsAre(NotedJob{1, "note"}));

  account_.set_limit(0);
  attempts_.jobs_ended(failed, failed);
  EXPECT_EQ(attempts_.counts_of(1), AttemptCounts{});
  EXPECT_THAT(attempts_.notes(), IsEmpty());
}

TEST_F(NextAttemptsTest, ForgivenAttemptsKeepTheirNumbersAndGiveNewRetries) {
  use_up_retries({2, 4});
  std::vector<JobAttempts> next;
  attempts_.forgive({2, 4}, next);
  EXPECT_THAT(next, ElementsAre(JobAttempts{{2, 4}, {.failed = 3, .forgiven = 3}}));
  const Ranges failed{{2, 4}};
  EXPECT_THAT(attempts_.judge(failed, 2).next,
              ElementsAre(JobAttempts{{2, 4}, {.failed = 4, .forgiven = 3}}));
}

TEST_F(NextAttemptsTest, RestoredJobsGoOnFromTheirEarlierAttempts) {
  const std::vector<JobAttempts> counts{{{5, 6}, {.failed = 2}}};
  const std::vector<NotedJob> notes{{7, "page 3"}};
  attempts_.restore(counts, notes, 4);
  EXPECT_EQ(attempts_.counts_of(5).failed, 2U);
  EXPECT_EQ(attempts_.leasable_together({6, 9}), (IndexRange{6, 7}));
  // Of a job whose attempts are not known any more, the batch's earlier failures are.
  std::vector<JobAttempts> next;
  attempts_.forgive({8, 9}, next);
  EXPECT_THAT(next, ElementsAre(JobAttempts{{8, 9}, {.failed = 5, .forgiven = 5}}));
}

}  // namespace
}  // namespace locksley
