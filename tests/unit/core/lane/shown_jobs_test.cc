// What others see of the jobs of external executors, while they run and afterwards.
#include "core/lane/shown_jobs.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/batch_results.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/batch/job_facts.h"
#include "core/lane/external_executor.h"
#include "core/lane/lane_view.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

constexpr std::size_t kAnySize = ~std::size_t{0};

class ShownJobsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> submit(std::uint64_t jobs, BatchOptions options = {}) {
    auto batch = std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  std::size_t running() {
    std::size_t count = 0;
    lane.running().visit(
        0, 100, 100, [](const Batch&) { return true; }, [&](const ShownJobs::View&) { ++count; });
    return count;
  }
  static JobFacts facts_of(const Batch& batch, std::uint64_t place, std::string& bytes) {
    batch.results().read(place, 1, [&](const ResultRow& row) {
      bytes = row.facts;
      return true;
    });
    return decode_facts(bytes).value_or(JobFacts{.attempt = 99});
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  // A turn is of many jobs, however long the test was held up in the one before it.
  Lane lane{"lane", FairRing::Options{.quantum = std::chrono::hours(1), .parallelism = 1}};
  ExternalExecutor executor{lane};
};

TEST_F(ShownJobsTest, TheOldestJobOfATurnIsVisibleWhileItRuns) {
  const auto batch = submit(3);
  // The first claim of a batch of unknown cost is one job.
  ASSERT_TRUE(executor.begin_turn(10, kAnySize));
  executor.set_worker("lane/0", true);
  ASSERT_TRUE(executor.start_job());
  executor.end_job(JobStatus::kOk, "first");
  executor.end_turn();
  ASSERT_TRUE(executor.begin_turn(10, kAnySize));
  EXPECT_FALSE(lane.running().find(*batch, 1).has_value());
  ASSERT_TRUE(executor.start_job());
  ASSERT_TRUE(executor.start_job());
  EXPECT_EQ(running(), 1U) << "the next one waits for the answer";
  executor.running().add_log("one\ntwo\n");
  executor.running().set_progress(40);
  const auto view = lane.running().find(*batch, 1);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->batch, batch);
  EXPECT_EQ(view->worker, "lane/0");
  EXPECT_EQ(view->progress, std::optional(40U));
  EXPECT_EQ(view->note, "two");
  EXPECT_EQ(view->log_end, 8U);
  EXPECT_EQ(lane.running().read_log(*batch, 1, 4)->bytes, "two\n");
  executor.end_job(JobStatus::kError, "bad", 3);
  ASSERT_TRUE(lane.running().find(*batch, 2).has_value());
  EXPECT_EQ(lane.running().find(*batch, 2)->log_end, 0U) << "nothing of the job before it";
  EXPECT_EQ(running(), 1U);
  executor.end_job(JobStatus::kOk, "good", 0);
  executor.end_turn();
  EXPECT_EQ(running(), 0U);
  std::string bytes;
  const JobFacts facts = facts_of(*batch, 1, bytes);
  EXPECT_EQ(facts.worker, "lane/0");
  EXPECT_EQ(facts.exit_status, std::optional(3));
  EXPECT_EQ(facts.progress, std::optional(40U));
  EXPECT_EQ(facts.note, "two");
  EXPECT_EQ(facts.log, "one\ntwo\n");
  EXPECT_GT(facts.started_at, 0);
  std::string others;
  EXPECT_EQ(facts_of(*batch, 2, others).log_end, 0U);
}

TEST_F(ShownJobsTest, TheNoteOfAJobReachesItsBatchAtOnceAndThenOnceASecond) {
  BatchOptions options;
  options.retries = 1;
  std::shared_ptr<Batch> batch;
  // Again if the test was held up for so long that a second had passed between the two notes.
  for (bool was_held_up = true; was_held_up;) {
    if (executor.has_turn()) {
      executor.end_job(JobStatus::kOk, "");
      executor.end_turn();
    }
    batch = submit(1, options);
    ASSERT_TRUE(executor.begin_turn(10, kAnySize));
    executor.set_worker("lane/0", false);
    ASSERT_TRUE(executor.start_job());
    const Nanoseconds before = steady_now();
    executor.running().set_note("1");
    EXPECT_EQ(batch->attempts().note(0), "1");
    executor.running().set_note("2");
    was_held_up = steady_now() - before >= std::chrono::seconds(1);
  }
  EXPECT_EQ(batch->attempts().note(0), "1") << "no step of the journal for each of many notes";
  EXPECT_EQ(lane.running().find(*batch, 0)->note, "2");
  executor.end_job(JobStatus::kError, "bad");
  executor.end_turn();
  EXPECT_EQ(batch->attempts().note(0), "2") << "the last one of the attempt";
}

TEST_F(ShownJobsTest, ANoteIsChargedAsAResultWhileTheJobRuns) {
  ResultAccount results, failures;
  BatchOptions options;
  options.results = &results;
  options.failures = &failures;
  options.keep = Keep::kNone;
  const auto batch = submit(1, options);
  ASSERT_TRUE(executor.begin_turn(10, kAnySize));
  executor.set_worker("lane/0", false);
  ASSERT_TRUE(executor.start_job());
  const std::uint64_t before = results.bytes() + failures.bytes();
  const auto charged = [&] { return results.bytes() + failures.bytes() - before; };
  executor.running().set_note(std::string(3000, 'x'));
  // The batch has the first one, and one each second, for the next attempt: charged, too, with what
  // its entry takes, to the account of failures.
  const std::uint64_t entry = charged() - 2 * 3000;
  EXPECT_LT(entry, 1000U);
  EXPECT_EQ(failures.bytes(), 3000 + entry);
  const auto charged_for_batch = [&] { return batch->attempts().note(0).size() + entry; };
  executor.running().set_note(std::string(10'000, 'x'));
  EXPECT_EQ(charged(), JobNotes::kMostText + charged_for_batch()) << "in place of the other one, and cut";
  executor.running().set_note("y");
  EXPECT_EQ(charged(), 1 + charged_for_batch());
  executor.end_job(JobStatus::kOk, "");
  executor.end_turn();
  EXPECT_LE(charged(), JobNotes::kMostText + entry) << "only what the batch has";
}

TEST_F(ShownJobsTest, OneOfVeryManyIsFoundAtOnce) {
  constexpr std::uint64_t kMany = 20'000;
  const auto first = submit(kMany), second = submit(kMany);
  std::vector<std::unique_ptr<ShownJob>> shown;
  for (std::uint64_t i = 0; i < 2 * kMany; ++i) {
    const auto& batch = i % 2 == 0 ? first : second;
    shown.push_back(std::make_unique<ShownJob>(lane.running()));
    shown.back()->begin(
        {.batch = *batch, .index = i / 2, .attempt = 1, .since = Nanoseconds(1), .worker = "far"});
  }
  // A look at each of all would take some 2 * kMany * kMany ns.
  for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(lane.running().find(*second, i)->index, i);
  EXPECT_FALSE(lane.running().find(*second, kMany));
  // Two executors may show the same job for a moment.
  ShownJob other(lane.running());
  other.begin({.batch = *first, .index = 7, .attempt = 2, .since = Nanoseconds(1), .worker = "near"});
  shown[14]->clear();
  EXPECT_EQ(lane.running().find(*first, 7)->worker, "near");
  shown[14]->begin(
      {.batch = *second, .index = kMany + 1, .attempt = 1, .since = Nanoseconds(1), .worker = "far"});
  EXPECT_TRUE(lane.running().find(*second, kMany + 1));
  other.clear();
  EXPECT_FALSE(lane.running().find(*first, 7));
  shown.clear();
  EXPECT_EQ(running(), 0U);
}

TEST_F(ShownJobsTest, AtTheLimitOfResultsANoteDoesNotGrow) {
  ResultAccount account;
  account.set_limit(1'000);
  BatchOptions options;
  options.results = &account;
  const auto batch = submit(1, options);
  ASSERT_TRUE(executor.begin_turn(10, kAnySize));
  executor.set_worker("lane/0", false);
  ASSERT_TRUE(executor.start_job());
  const auto note = [&] { return lane.running().find(*batch, 0)->note; };
  executor.running().set_note("half");
  account.charge(1'000);  // what others hold
  const std::uint64_t before = account.bytes();
  executor.running().set_note(std::string(4'000, 'x'));
  EXPECT_EQ(note(), "half");
  EXPECT_EQ(account.bytes(), before);
  executor.running().set_note("more");
  EXPECT_EQ(note(), "more") << "it takes no more than the one before";
  account.refund(1'000);
  executor.running().set_note(std::string(4'000, 'x'));
  EXPECT_EQ(note(), std::string(4'000, 'x'));
  executor.end_job(JobStatus::kOk, "");
  executor.end_turn();
}

TEST_F(ShownJobsTest, AWatchIsToldOnceThatAJobBeganWroteOrEnded) {
  const auto batch = submit(1);
  int told = 0;
  lane.running().on_log([&](Batch& of) {
    EXPECT_EQ(&of, batch.get());
    ++told;
  });
  const auto told_by = [&](auto act) {
    const ShownJobs::Watch watch = lane.running().watch(*batch, 0);
    const int before = told;
    act();
    EXPECT_FALSE(lane.running().is_watching(watch));
    return told - before;
  };
  ASSERT_TRUE(executor.begin_turn(10, kAnySize));
  executor.set_worker("lane/0", false);
  EXPECT_EQ(told_by([&] { executor.start_job(); }), 1);
  EXPECT_EQ(told_by([&] {
              executor.running().add_log("x");
              executor.running().add_log("y");
            }),
            1);
  const ShownJobs::Watch other = lane.running().watch(*batch, 1);
  const ShownJobs::Watch dropped = lane.running().watch(*batch, 0);
  lane.running().unwatch(dropped);
  EXPECT_EQ(told_by([&] {
              executor.end_job(JobStatus::kOk, "");
              executor.end_turn();
            }),
            1);
  EXPECT_TRUE(lane.running().is_watching(other));
  lane.running().unwatch(other);
}

TEST_F(ShownJobsTest, AJobThatWaitsIsQueuedWhereverItLies) {
  const auto batch = submit(10);
  EXPECT_EQ(lane.view().is_queued(*batch, 0), std::optional(true));
  ASSERT_TRUE(executor.begin_turn(1, kAnySize));
  EXPECT_EQ(lane.view().is_queued(*batch, 0), std::optional(false));
  EXPECT_EQ(lane.view().is_queued(*batch, 1), std::optional(true));
  EXPECT_EQ(lane.view().is_queued(*batch, 9), std::optional(true));
  EXPECT_EQ(lane.view().is_queued(*batch, 10), std::optional(false));
  executor.end_turn();
  EXPECT_EQ(lane.view().is_queued(*batch, 0), std::optional(true)) << "it was given back";
}

TEST_F(ShownJobsTest, JobsWhoseProgramHasNotGotThemAreStarting) {
  const auto batch = submit(3);
  const auto other = submit(3);
  EXPECT_EQ(lane.running().first_starting(*batch), std::nullopt);
  ASSERT_TRUE(executor.begin_turn(1, kAnySize));
  Batch& begun = executor.batch();
  Batch& waits = &begun == batch.get() ? *other : *batch;
  executor.set_starting(true);
  EXPECT_EQ(lane.running().first_starting(begun), std::optional<std::uint64_t>(0));
  EXPECT_EQ(lane.running().first_starting(waits), std::nullopt);
  executor.set_starting(false);
  EXPECT_EQ(lane.running().first_starting(begun), std::nullopt);
  executor.set_starting(true);
  executor.end_turn();
  EXPECT_EQ(lane.running().first_starting(begun), std::nullopt) << "a turn that is over starts nothing";
}

}  // namespace
}  // namespace locksley
