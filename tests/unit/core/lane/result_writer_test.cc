// The buffer in which an executor collects results, and what a publication copies out of it.
// Length: one class: what is written, and what each publication takes of it.
#include "core/lane/result_writer.h"
#include "core/batch/batch_attempts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/index_ranges.h"
#include "core/batch/handler.h"
#include "tests/support/batch_fixture.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::RecordingJournal;
using testing::Row;
using testing::rows_of;
using Outcome = ResultWriter::Outcome;

class ResultWriterTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> make(BatchOptions options = {}) {
    auto batch = std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0),
                                         nullptr, std::make_unique<RecordingJournal>(journal));
    batch->jobs_added(1'000'000);
    return batch;
  }
  const std::function<void(Batch&)> fail_to_cancel = [](Batch&) { ADD_FAILURE() << "a batch is cancelled"; };
  void run(std::uint64_t index, std::string_view output, JobStatus status = JobStatus::kOk) {
    writer.begin_job(index);
    writer.write(output);
    writer.end_job(status);
  }
  // Which jobs each step says have ended.
  std::vector<std::vector<IndexRange>> ended() const {
    std::vector<std::vector<IndexRange>> all;
    for (const BatchStep& step : journal.steps) all.push_back(step.ended);
    return all;
  }
  // `size` bytes that differ from their neighbours and from those of another seed.
  static std::string noise(std::size_t size, unsigned seed) {
    std::string text(size, ' ');
    for (std::size_t i = 0; i < size; ++i)
      text[i] = static_cast<char>('!' + (i * 7 + seed * 13 + i / 251) % 90);
    return text;
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  RecordingJournal::Record journal;
  ResultWriter writer;
};

TEST_F(ResultWriterTest, PublishedRowsAreThoseThatWereWritten) {
  const auto batch = make();
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  run(0, "first");
  run(1, "");
  run(2, "third", JobStatus::kError);
  EXPECT_THAT(rows_of(*batch), IsEmpty());
  EXPECT_EQ(writer.unpublished_jobs(), 3u);
  EXPECT_GT(writer.unpublished_bytes(), 10u);
  EXPECT_EQ(writer.publish(), Outcome::kPublished);
  EXPECT_EQ(writer.unpublished_jobs(), 0u);
  EXPECT_EQ(writer.unpublished_bytes(), 0u);
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{0, JobStatus::kOk, "first"}, Row{1, JobStatus::kOk, ""},
                                           Row{2, JobStatus::kError, "third"}));
  EXPECT_EQ(writer.publish(), Outcome::kNothing);
  EXPECT_EQ(writer.end_batch(), Outcome::kNothing);
  EXPECT_EQ(batch->status().rows, 3u);
}

TEST_F(ResultWriterTest, APublicationInTheWorkersPlaceLeavesTheLaterRowsToTheNext) {
  const auto batch = make();
  writer.begin_batch(*batch);
  writer.begin_burst(10);
  run(10, "a");
  run(11, "bb");
  writer.begin_job(12);
  writer.write("half of");
  EXPECT_EQ(writer.publish_for_worker(fail_to_cancel), Outcome::kPublished);
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{10, JobStatus::kOk, "a"}, Row{11, JobStatus::kOk, "bb"}));
  EXPECT_EQ(writer.publish_for_worker(fail_to_cancel), Outcome::kNothing);
  writer.write(" it");
  writer.end_job(JobStatus::kOk);
  run(13, "ddd");
  EXPECT_EQ(writer.publish(), Outcome::kPublished);
  run(14, "e");
  EXPECT_EQ(writer.end_batch(), Outcome::kPublished);
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{10, JobStatus::kOk, "a"}, Row{11, JobStatus::kOk, "bb"},
                                           Row{12, JobStatus::kOk, "half of it"},
                                           Row{13, JobStatus::kOk, "ddd"}, Row{14, JobStatus::kOk, "e"}));
  EXPECT_THAT(ended(), ElementsAre(ElementsAre(IndexRange{10, 12}), ElementsAre(IndexRange{12, 14}),
                                   ElementsAre(IndexRange{14, 15})));
}

// For readers of what runs, which must not wait for a publication.
class CallingObserver final : public BatchObserver {
 public:
  explicit CallingObserver(std::function<void()> call) : call_(std::move(call)) {}
  void batch_changed(const std::shared_ptr<Batch>&) override { call_(); }
  void handler_threw(const Batch&, std::uint64_t, std::string_view) override {}
  void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}

 private:
  const std::function<void()> call_;
};

TEST_F(ResultWriterTest, WhatRunsIsShownDuringAPublication) {
  int shown = 0;
  CallingObserver observer([&] {
    auto running = std::async(std::launch::async, [this] { return writer.running(); });
    ASSERT_EQ(running.wait_for(std::chrono::seconds(10)), std::future_status::ready) << "it waits";
    const auto found = running.get();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->index, 7u);
    EXPECT_EQ(found->since, Nanoseconds(5));
    ++shown;
  });
  const auto batch =
      std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0), &observer);
  batch->jobs_added(10);
  EXPECT_FALSE(writer.running().has_value());
  writer.begin_batch(*batch, Nanoseconds(5));
  EXPECT_FALSE(writer.running().has_value()) << "no job has begun";
  writer.begin_burst(7);
  run(7, "x");
  EXPECT_EQ(writer.end_batch(), Outcome::kPublished);
  EXPECT_EQ(shown, 1);
  EXPECT_FALSE(writer.running().has_value());
}

class ScatteredFailuresTest : public ResultWriterTest, public ::testing::WithParamInterface<Keep> {};

// Else the batch's mutex would be held for all of them, and everybody who asks for the batch's
// state, or for that of all batches, would wait.
TEST_P(ScatteredFailuresTest, ArePublishedInParts) {
  constexpr std::uint64_t kJobs = 4'000;
  constexpr std::uint64_t kMost = 256;  // ranges of jobs that failed, in a part
  BatchOptions options;
  options.keep = GetParam();
  options.retries = 1;
  const auto batch = make(options);
  writer.begin_batch(*batch);
  // In two bursts, of which the second has the lower indexes; every second job fails.
  const auto run_all = [&] {
    for (const std::uint64_t low : {kJobs / 2, std::uint64_t{0}}) {
      writer.begin_burst(low);
      for (std::uint64_t i = low; i < low + kJobs / 2; ++i)
        run(i, "x", i % 2 == 0 ? JobStatus::kError : JobStatus::kOk);
    }
  };
  run_all();
  EXPECT_EQ(writer.publish(), Outcome::kPublished);
  EXPECT_GE(journal.steps.size(), kJobs / 2 / kMost);
  std::vector<IndexRange> ended;
  std::uint64_t waiting = 0;
  for (const BatchStep& step : journal.steps) {
    EXPECT_LE(step.job_attempts.size(), kMost);
    waiting += step.job_attempts.size();
    for (const IndexRange& range : step.ended) {
      for (std::uint64_t i = range.low; i < range.high; ++i) EXPECT_EQ(i % 2, 1u);
      ended.push_back(range);
    }
    EXPECT_EQ(count_of(ended), step.totals.total()) << "each step has the jobs that its counters have";
  }
  EXPECT_EQ(waiting, kJobs / 2);
  EXPECT_EQ(count_of(sorted(ended)), kJobs / 2);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.ok, kJobs / 2);
  EXPECT_EQ(status.retried, kJobs / 2);
  EXPECT_EQ(status.rows, GetParam() == Keep::kAll ? kJobs / 2 : 0);
  // Those that fail again do so for good.
  EXPECT_EQ(batch->take_due_retries(Nanoseconds::max()).size(), kJobs / 2);
  journal.steps.clear();
  for (std::uint64_t i = 0; i < kJobs; i += 2) {
    writer.begin_burst(i);
    run(i, "y", JobStatus::kError);
  }
  EXPECT_EQ(writer.end_batch(), Outcome::kPublished);
  std::vector<IndexRange> failed;
  for (const BatchStep& step : journal.steps) {
    EXPECT_LE(step.failed.size(), kMost);
    EXPECT_EQ(step.failed, step.ended);
    failed.insert(failed.end(), step.failed.begin(), step.failed.end());
  }
  EXPECT_EQ(count_of(sorted(failed)), kJobs / 2);
  EXPECT_EQ(batch->status().failed, kJobs / 2);
}

TEST_P(ScatteredFailuresTest, FailuresOfNeighboursArePublishedAtOnce) {
  BatchOptions options;
  options.keep = GetParam();
  options.retries = 1;
  const auto batch = make(options);
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  for (std::uint64_t i = 0; i < 2'000; ++i) run(i, "x", JobStatus::kError);
  EXPECT_EQ(writer.end_batch(), Outcome::kPublished);
  ASSERT_EQ(journal.steps.size(), 1u);
  EXPECT_THAT(journal.steps[0].job_attempts, ElementsAre(JobAttempts{{0, 2'000}, {1, 0}}));
}

INSTANTIATE_TEST_SUITE_P(All, ScatteredFailuresTest,
                         ::testing::Values(Keep::kAll, Keep::kFailures, Keep::kNone), [](const auto& tested) {
                           return tested.param == Keep::kAll        ? "KeepAll"
                                  : tested.param == Keep::kFailures ? "KeepFailures"
                                                                    : "KeepNone";
                         });

TEST_F(ResultWriterTest, WithoutABatchThereIsNothingToPublish) {
  EXPECT_EQ(writer.publish_for_worker(fail_to_cancel), Outcome::kNothing);
  const auto batch = make();
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  run(0, "x");
  EXPECT_EQ(writer.end_batch(), Outcome::kPublished);
  EXPECT_EQ(writer.publish_for_worker(fail_to_cancel), Outcome::kNothing);
}

TEST_F(ResultWriterTest, GrowingKeepsEveryByteThatWasWritten) {
  const auto batch = make();
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  // Rows that are not published yet, and a row that grows in the middle, from below the first size
  // of the buffer to many times as much.
  std::vector<std::string> outputs;
  for (unsigned i = 0; i < 40; ++i) {
    outputs.push_back(noise(1000 * (i + 1) + i, i));
    writer.begin_job(i);
    for (std::size_t at = 0; at < outputs.back().size(); at += 777)
      writer.write(outputs.back().substr(at, 777));
    writer.end_job(JobStatus::kOk);
  }
  outputs.push_back(noise(3'000'000, 99));
  run(40, outputs.back());
  writer.end_batch();
  const std::vector<Row> rows = rows_of(*batch);
  ASSERT_EQ(rows.size(), outputs.size());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(rows[i].output == outputs[i]) << "row " << i;
}

// Whatever the place at which the buffer is full: in a row, at its end, or with too little left for
// a head.
TEST_F(ResultWriterTest, RowsOfEverySizeFillTheBufferToItsEnd) {
  constexpr std::size_t kFirstSize = 128 * 1024;
  for (std::size_t left = 0; left <= 96; left += 4) {
    const auto batch = make();
    ResultWriter fresh;
    fresh.begin_batch(*batch);
    fresh.begin_burst(0);
    const std::string first = noise(kFirstSize - sizeof(ResultHead) - left, 1);
    for (const std::string& output : {first, std::string("second"), std::string(), std::string("fourth")}) {
      fresh.begin_job(0);
      fresh.write(output);
      fresh.end_job(JobStatus::kOk);
    }
    fresh.end_batch();
    const std::vector<Row> rows = rows_of(*batch);
    ASSERT_EQ(rows.size(), 4u) << left;
    EXPECT_TRUE(rows[0].output == first) << left;
    EXPECT_EQ(rows[1].output, "second") << left;
    EXPECT_EQ(rows[2].output, "") << left;
    EXPECT_EQ(rows[3].output, "fourth") << left;
  }
}

TEST_F(ResultWriterTest, TheBufferDoublesSoThatALongOutputIsCopiedFewTimes) {
  const auto batch = make();
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  writer.begin_job(0);
  int moves = 0;
  const char* behind = nullptr;  // where the last write ended
  for (int i = 0; i < 16 * 1024; ++i) {
    char* to = writer.write_space(1024);
    std::fill_n(to, 1024, 'x');
    if (to != behind && i != 0) ++moves;
    ASSERT_LE(moves, 8) << "from 128 KiB to 32 MiB";
    behind = to + 1024;
  }
  writer.end_job(JobStatus::kOk);
  EXPECT_EQ(moves, 8);
  writer.end_batch();
  EXPECT_EQ(rows_of(*batch).at(0).output.size(), 16u * 1024 * 1024);
}

TEST_F(ResultWriterTest, TheMemoryOfALargeOutputIsGivenBackAtTheEndOfItsBatchAndThatOfASmallOneIsKept) {
  const auto moves_after = [this](std::size_t size) {
    const auto batch = make();
    writer.begin_batch(*batch);
    writer.begin_burst(0);
    run(0, noise(size, 1));
    writer.end_batch();
    writer.begin_batch(*batch);
    writer.begin_burst(1);
    writer.begin_job(1);
    char* const first = writer.write_space(100'000);
    char* const second = writer.write_space(100'000);
    writer.end_job(JobStatus::kOk);
    writer.end_batch();
    return second != first + 100'000;
  };
  EXPECT_FALSE(moves_after(600'000)) << "the buffer has room for both";
  EXPECT_TRUE(moves_after(2'000'000)) << "the buffer is as small as at first";
}

TEST_F(ResultWriterTest, AnOutputBeyondFourGibibytesIsRefusedBeforeItIsAllocated) {
  const auto batch = make();
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  writer.begin_job(0);
  EXPECT_THROW(writer.write_space(std::size_t{5} << 30), std::length_error);
  writer.clear_output();
  writer.write("small");
  writer.end_job(JobStatus::kOk);
  writer.end_batch();
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{0, JobStatus::kOk, "small"}));
}

TEST_F(ResultWriterTest, AnOutputThatIsLongerThanItsBatchAllowsIsRefusedWhileItIsWritten) {
  constexpr std::size_t kMost = 1024 * 1024;
  BatchOptions options;
  options.max_output_bytes = kMost;
  const auto batch = make(std::move(options));
  const std::string piece(64 * 1024, 'x');
  const auto write_for_ever = [&] {
    for (int i = 0; i < 64; ++i) writer.write(piece);
  };
  std::string refusal;
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  writer.begin_job(0);
  try {
    write_for_ever();
  } catch (const std::length_error& error) {
    refusal = error.what();
  }
  ASSERT_TRUE(refusal.starts_with("the output has ")) << refusal;
  ASSERT_TRUE(refusal.ends_with(" bytes; a result has at most 1048576")) << refusal;
  // A handler that ignores it, and goes on.
  EXPECT_THROW(write_for_ever(), std::length_error);
  writer.end_job(JobStatus::kOk);
  // A handler that ends with a text of its own.
  writer.begin_job(1);
  EXPECT_THROW(write_for_ever(), std::length_error);
  writer.replace_output("why");
  writer.end_job(JobStatus::kError);
  // The limit is exact, and the same as before for the next job.
  const std::string longest(kMost, 'y');
  run(2, longest);
  writer.begin_job(3);
  try {  // it throws if the buffer has no room
    writer.write(longest + 'y');
  } catch (const std::length_error&) {
  }
  writer.end_job(JobStatus::kOk);
  writer.end_batch();
  const std::vector<Row> rows = rows_of(*batch);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], (Row{0, JobStatus::kError, refusal}));
  EXPECT_EQ(rows[1], (Row{1, JobStatus::kError, "why"}));
  EXPECT_TRUE(rows[2].status == JobStatus::kOk && rows[2].output == longest);
  EXPECT_EQ(rows[3],
            (Row{3, JobStatus::kError, "the output has 1048577 bytes; a result has at most 1048576"}));
}

TEST_F(ResultWriterTest, AClearedOutputLeavesNothing) {
  const auto batch = make();
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  run(0, "zero");
  writer.begin_job(1);
  writer.write("not wanted");
  writer.clear_output();
  writer.write("one");
  writer.end_job(JobStatus::kOk);
  writer.end_batch();
  EXPECT_THAT(rows_of(*batch), ElementsAre(Row{0, JobStatus::kOk, "zero"}, Row{1, JobStatus::kOk, "one"}));
}

TEST_F(ResultWriterTest, WhereOnlyFailuresAreKeptGoodJobsAreCountedWithoutRows) {
  BatchOptions options;
  options.keep = Keep::kFailures;
  const auto batch = make(options);
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  run(0, "good");
  run(1, "bad", JobStatus::kError);
  run(2, "good");
  writer.publish();
  run(3, "good");
  run(4, "late", JobStatus::kTimeout);
  writer.end_batch();
  EXPECT_EQ(batch->status().ok, 3u);
  EXPECT_EQ(batch->status().failed, 2u);
  EXPECT_THAT(rows_of(*batch),
              ElementsAre(Row{1, JobStatus::kError, "bad"}, Row{4, JobStatus::kTimeout, "late"}));
}

TEST_F(ResultWriterTest, WhereNothingIsKeptJobsAreCountedByTheirStatus) {
  BatchOptions options;
  options.keep = Keep::kNone;
  const auto batch = make(options);
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  run(0, "good");
  run(1, "bad", JobStatus::kError);
  run(2, "late", JobStatus::kTimeout);
  writer.end_batch();
  EXPECT_EQ(batch->status().ok, 1u);
  EXPECT_EQ(batch->status().failed, 2u);
  EXPECT_EQ(batch->status().rows, 0u);
}

TEST_F(ResultWriterTest, TheJournalIsToldWhichJobsOfWhichBurstsHaveEnded) {
  const auto batch = make();
  writer.begin_batch(*batch);
  writer.begin_burst(100);
  run(100, "");
  run(101, "");
  writer.begin_burst(102);  // continues the burst before it
  run(102, "");
  writer.begin_burst(50);
  run(50, "");
  writer.publish();
  run(51, "");
  writer.begin_burst(7);
  writer.begin_burst(9);  // of the burst before it no job has ended
  run(9, "");
  writer.end_batch();
  EXPECT_THAT(ended(), ElementsAre(ElementsAre(IndexRange{100, 103}, IndexRange{50, 51}),
                                   ElementsAre(IndexRange{51, 52}, IndexRange{9, 10})));
}

TEST_F(ResultWriterTest, EachBatchBeginsAnew) {
  const auto first = make();
  writer.begin_batch(*first);
  writer.begin_burst(0);
  run(0, "of the first", JobStatus::kError);
  writer.end_batch();
  const auto second = make();
  writer.begin_batch(*second);
  writer.begin_burst(0);
  EXPECT_EQ(writer.unpublished_jobs(), 0u);
  EXPECT_EQ(writer.unpublished_bytes(), 0u);
  run(0, "of the second");
  writer.end_batch();
  EXPECT_EQ(first->status().rows, 1u);
  EXPECT_THAT(rows_of(*second), ElementsAre(Row{0, JobStatus::kOk, "of the second"}));
  EXPECT_EQ(second->status().failed, 0u);
}

TEST_F(ResultWriterTest, TheBurstsOfABatchEndWithIt) {
  const auto journaled = make();
  writer.begin_batch(*journaled);
  writer.begin_burst(10);
  run(10, "");
  writer.end_batch();
  // Without a journal the writer does not note which jobs have ended; job 10 has a failed attempt.
  BatchOptions options;
  options.retries = 3;
  Batch other(options, handler, std::make_unique<RangePayloads>(0));
  other.jobs_added(100);
  writer.begin_batch(other);
  run(10, "", JobStatus::kError);
  writer.end_batch();
  EXPECT_EQ(other.attempts().of(10), 2u);
  writer.begin_batch(other);
  run(50, "");
  writer.end_batch();
  EXPECT_EQ(other.attempts().of(10), 2u) << "job 50 was taken for the one of the first batch's burst";
}

TEST_F(ResultWriterTest, TooManyFailuresAreReportedToWhoeverPublishes) {
  BatchOptions options;
  options.max_fails = 1;
  const auto batch = make(options);
  writer.begin_batch(*batch);
  writer.begin_burst(0);
  run(0, "good");
  EXPECT_EQ(writer.publish(), Outcome::kPublished);
  run(1, "bad", JobStatus::kError);
  Batch* cancelled = nullptr;
  std::future<void> leaves;
  const auto cancel = [&](Batch& failed) {
    cancelled = &failed;
    leaves = std::async(std::launch::async, [this] { (void)writer.end_batch(); });
    EXPECT_EQ(leaves.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout)
        << "the executor leaves the batch while it is being cancelled";
  };
  EXPECT_EQ(writer.publish_for_worker(cancel), Outcome::kTooManyFailures);
  EXPECT_EQ(cancelled, batch.get());
  leaves.get();
}

}  // namespace
}  // namespace locksley
