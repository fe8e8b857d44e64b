// The notes of a batch's jobs: by themselves, and what the batch and its journal make of them.
#include "core/batch/job_notes.h"
#include "core/batch/batch_attempts.h"

#include <gtest/gtest.h>

#include <string>

#include "core/batch/batch_failures.h"
#include "core/batch/batch_results.h"
#include "core/batch/job_facts.h"
#include "core/lane/external_executor.h"
#include "tests/support/batch_fixture.h"

namespace locksley {
namespace {

TEST(JobNotesTest, TheLastNoteOfAJobIsKept) {
  JobNotes notes;
  EXPECT_TRUE(notes.set(7, "one"));
  EXPECT_TRUE(notes.set(7, "two"));
  ASSERT_NE(notes.find(7), nullptr);
  EXPECT_EQ(*notes.find(7), "two");
  EXPECT_EQ(notes.find(8), nullptr);
  EXPECT_TRUE(notes.set(7, ""));
  EXPECT_EQ(notes.find(7), nullptr);
  EXPECT_EQ(notes.bytes(), 0U);
}

TEST(JobNotesTest, AJobWithANoteIsAlone) {
  JobNotes notes;
  EXPECT_EQ(notes.leasable_together({0, 10}), (IndexRange{0, 10}));
  notes.set(4, "x");
  EXPECT_EQ(notes.leasable_together({0, 10}), (IndexRange{0, 4}));
  EXPECT_EQ(notes.leasable_together({4, 10}), (IndexRange{4, 5}));
  EXPECT_EQ(notes.leasable_together({5, 10}), (IndexRange{5, 10}));
  EXPECT_EQ(notes.leasable_together({0, 4}), (IndexRange{0, 4}));
}

TEST(JobNotesTest, NotesOfJobsThatEndedWellAreForgotten) {
  JobNotes notes;
  for (const std::uint64_t index : {1U, 3U, 5U}) notes.set(index, "x");
  notes.forget({2, 4});
  EXPECT_EQ(notes.leasable_together({2, 9}), (IndexRange{2, 5}));
  notes.forget({0, 9});
  EXPECT_EQ(notes.bytes(), 0U);
  EXPECT_EQ(notes.find(1), nullptr);
}

TEST(JobNotesTest, TextIsBounded) {
  JobNotes notes;
  EXPECT_TRUE(notes.set(0, std::string(JobNotes::kMostText + 1, 'x')));
  EXPECT_EQ(notes.find(0)->size(), JobNotes::kMostText);
  std::uint64_t kept = 1;
  while (notes.set(kept, std::string(JobNotes::kMostText, 'x'))) ++kept;
  EXPECT_LE(notes.bytes(), JobNotes::kMostBytes);
  EXPECT_GT(notes.bytes() + JobNotes::kMostText + JobNotes::kEach, JobNotes::kMostBytes);
  EXPECT_FALSE(notes.set(kept, std::string(JobNotes::kMostText, 'x')));
  EXPECT_EQ(notes.find(kept), nullptr);
  EXPECT_TRUE(notes.set(0, "a shorter one in place of a longer one"));
}

class NotedBatchTest : public testing::BatchFixture {
 protected:
  // A publication of one job with this note in its facts.
  static bool publish_noted(Batch& batch, std::uint64_t index, JobStatus status, std::string_view note) {
    std::string bytes = "output";
    std::string facts;
    encode({.worker = "w", .note = note}, facts);
    ResultHead::append_facts_length(facts);
    bytes += facts;
    const ResultHead head{index, static_cast<std::uint32_t>(bytes.size()), status, 1};
    std::vector<std::byte> row(ResultHead::bytes_of(bytes.size()));
    std::memcpy(row.data(), &head, sizeof head);
    std::memcpy(row.data() + sizeof head, bytes.data(), bytes.size());
    EndedJobs ended;
    ++ended.by_status[static_cast<std::size_t>(status)];
    return batch.publish({.ended = ended, .rows = {row, 1}, .indexes = {{index, index + 1}}});
  }
};

TEST_F(NotedBatchTest, TheNoteOfAFailedAttemptIsThereForTheNextOne) {
  BatchOptions options;
  options.retries = 1;
  const auto batch = make(options);
  batch->jobs_added(2);
  batch->close();
  EXPECT_EQ(batch->attempts().note(0), "");
  publish_noted(*batch, 0, JobStatus::kError, "half");
  EXPECT_EQ(batch->attempts().note(0), "half");
  EXPECT_EQ(batch->attempts().leasable_together({0, 2}), (IndexRange{0, 1}));
  ASSERT_EQ(journal.steps.size(), 1U);
  EXPECT_EQ(journal.steps[0].notes, (std::vector<NotedJob>{{0, "half"}}));
  ASSERT_EQ(batch->take_due_retries(Nanoseconds::max()).size(), 1U);
  publish_noted(*batch, 0, JobStatus::kOk, "whole");
  EXPECT_EQ(batch->attempts().note(0), "") << "no attempt follows";
}

TEST_F(NotedBatchTest, ANoteOfARunningJobIsAStepOfItsOwn) {
  const auto batch = make();
  batch->jobs_added(1);
  batch->close();
  EXPECT_TRUE(batch->set_note(0, "1"));
  EXPECT_TRUE(batch->set_note(0, "2"));
  ASSERT_EQ(journal.steps.size(), 2U);
  EXPECT_EQ(journal.steps[1].notes, (std::vector<NotedJob>{{0, "2"}}));
  EXPECT_TRUE(journal.steps[1].ended.empty());
}

TEST_F(NotedBatchTest, TheLastStepHasTheNotesOfFailedJobsAndSoHasRetry) {
  const auto batch = make();
  batch->jobs_added(2);
  batch->close();
  publish_noted(*batch, 0, JobStatus::kError, "half");
  publish_noted(*batch, 1, JobStatus::kOk, "whole");
  ASSERT_TRUE(batch->is_over());
  EXPECT_EQ(journal.steps.back().notes, (std::vector<NotedJob>{{0, "half"}}));
  ASSERT_EQ(batch->failures().begin_requeue().jobs, 1U);
  batch->failures().requeue();
  ASSERT_TRUE(journal.steps.back().is_base);
  EXPECT_EQ(journal.steps.back().notes, (std::vector<NotedJob>{{0, "half"}}));
  EXPECT_EQ(batch->attempts().note(0), "half");
}

TEST_F(NotedBatchTest, ARestoredBatchHasItsNotes) {
  const auto batch = make();
  BatchHistory history;
  history.jobs = 2;
  history.notes = {{1, "half"}};
  batch->restore(history);
  EXPECT_EQ(batch->attempts().note(1), "half");
}

// Without a journal, too: the executor names the jobs that have ended although none had a note when
// its turn began.
TEST_F(NotedBatchTest, AJobThatLeftANoteAndEndsWellInTheSameTurnHasNoneAfterIt) {
  for (const bool in_any_order : {false, true}) {
    Lane lane("processes", {});
    ExternalExecutor executor(lane);
    const auto batch = std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
    lane.submit(batch, 1, /*open=*/false);
    ASSERT_TRUE(executor.begin_turn(1, 1));
    if (in_any_order) executor.allow_any_order();
    ASSERT_TRUE(executor.start_job());
    executor.running().set_note("half");
    EXPECT_EQ(batch->attempts().note(0), "half");
    executor.end_job(JobStatus::kOk, "x");
    executor.end_turn();
    EXPECT_EQ(batch->attempts().note(0), "");
  }
}

TEST_F(NotedBatchTest, FailedJobsOfThePoolHaveWhereAndWhenTheyRan) {
  const auto batch = make();
  batch->jobs_added(2);
  batch->close();
  std::vector<std::byte> rows;
  for (const ResultHead head :
       {ResultHead{0, 0, JobStatus::kOk, 0}, ResultHead{1, 0, JobStatus::kError, 0}}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&head);
    rows.insert(rows.end(), bytes, bytes + sizeof head);
  }
  EndedJobs ended;
  ended.by_status[0] = ended.by_status[1] = 1;
  const std::int64_t before = unix_milliseconds();
  const Batch::Ran ran{"pool/3", steady_now() - std::chrono::milliseconds(1500)};
  const std::int64_t after = unix_milliseconds();
  (void)batch->publish({.ended = ended, .rows = {rows, 2}, .indexes = {{0, 2}}, .ran = ran});
  std::vector<std::string> facts;
  batch->results().read(0, 2, [&](const ResultRow& row) {
    EXPECT_EQ(row.output, "");
    facts.emplace_back(row.facts);
    return true;
  });
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[0], "") << "a good job of the pool has none";
  const auto known = decode_facts(facts[1]);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->worker, "pool/3");
  EXPECT_EQ(known->attempt, 1U);
  EXPECT_GE(known->duration_us, 1'500'000);
  EXPECT_GE(known->started_at, before - 1500 - 1000);
  EXPECT_LE(known->started_at, after - 1500 + 1000);
}

}  // namespace
}  // namespace locksley
