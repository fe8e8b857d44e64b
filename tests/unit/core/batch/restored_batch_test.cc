// A batch that is made what an earlier process left: its record, and rows that only its journal
// has.
#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/batch_failures.h"
#include "core/batch/batch_results.h"
#include "tests/support/batch_fixture.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A batch whose first five rows the journal has, and three more that are in memory: "m5", "m6",
// "m7".
class RestoredBatchTest : public testing::BatchFixture {
 protected:
  RestoredBatchTest() : batch(make()) {
    BatchHistory history;
    history.jobs = 8;
    history.closed = true;
    history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 5;
    history.rows = 5;
    history.result_bytes = 77;
    history.submitted_at = 1;
    batch->restore(history);
    publish(*batch, {{5, JobStatus::kOk, "m5"}, {6, JobStatus::kOk, "m6"}, {7, JobStatus::kOk, "m7"}});
  }
  const std::shared_ptr<Batch> batch;
};

TEST_F(RestoredBatchTest, RowsBelowTheFirstInMemoryAreReadFromTheJournal) {
  EXPECT_THAT(read(*batch, 1, 2), ElementsAre("j1", "j2"));
  EXPECT_THAT(journal.asked, ElementsAre(std::pair(1, 2)));
}

TEST_F(RestoredBatchTest, RowsInMemoryAreNotReadFromTheJournal) {
  EXPECT_THAT(read(*batch, 5, 2), ElementsAre("m5", "m6"));
  EXPECT_THAT(read(*batch, 7, 100), ElementsAre("m7"));
  EXPECT_THAT(read(*batch, 8, 100), IsEmpty());
  EXPECT_THAT(read(*batch, 100, 1), IsEmpty());
  EXPECT_THAT(journal.asked, IsEmpty());
}

TEST_F(RestoredBatchTest, AReadThatBeginsInTheJournalGoesOnInMemory) {
  EXPECT_THAT(read(*batch, 3, 4), ElementsAre("j3", "j4", "m5", "m6"));
  EXPECT_THAT(journal.asked, ElementsAre(std::pair(3, 2)));
  EXPECT_THAT(read(*batch, 0, 100), ElementsAre("j0", "j1", "j2", "j3", "j4", "m5", "m6", "m7"));
}

TEST_F(RestoredBatchTest, AReaderThatStopsInTheJournalGetsNothingFromMemory) {
  int visits = 0;
  EXPECT_EQ(batch->results().read(3, 100, [&](const ResultRow&) { return ++visits == 1; }), 1u);
  EXPECT_EQ(visits, 2);
}

TEST_F(RestoredBatchTest, OnlyRowsThatAreAllInMemoryCanBeHadWithoutTheJournal) {
  EXPECT_FALSE(batch->results().in_memory(4, 1));
  EXPECT_TRUE(batch->results().in_memory(4, 0)) << "no rows";
  EXPECT_TRUE(batch->results().in_memory(5, 1));
}

TEST_F(RestoredBatchTest, ItsStatusIsThatOfBothProcesses) {
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.ok, 8u);
  EXPECT_EQ(status.rows, 8u);
  EXPECT_GT(status.result_bytes, 77u);
  EXPECT_EQ(status.submitted_at, 1);
  EXPECT_TRUE(batch->is_over());
}

// Some rows at a time: what leaves memory during the read is read from the journal.
class LongReadTest : public testing::BatchFixture {
 protected:
  static constexpr std::uint64_t kAtOnce = ResultLog::kMostSegments;
  static constexpr std::uint64_t kRows = 3 * kAtOnce;

  // Each row is a segment of its own.
  LongReadTest() : batch(make()) {
    batch->jobs_added(kRows);
    for (std::uint64_t i = 0; i < kRows; ++i) publish(*batch, {{i, JobStatus::kOk, large}});
  }
  // Reads all rows, and calls `meanwhile` at the row `at`. Returns how many rows there were.
  std::uint64_t read_all(std::uint64_t at, const std::function<void()>& meanwhile) const {
    std::uint64_t place = 0;
    return batch->results().read(0, kRows, [&](const ResultRow& row) {
      EXPECT_EQ(row.index, place);
      if (place++ == at) meanwhile();
      return true;
    });
  }
  const std::string large = std::string(4096, 'x');
  const std::shared_ptr<Batch> batch;
};

TEST_F(LongReadTest, SegmentsAreTakenSomeAtATime) {
  EXPECT_EQ(read_all(1, [&] { batch->drop_rows_before(kRows - 5); }), kRows);
  EXPECT_THAT(journal.asked, ElementsAre(std::pair(kAtOnce, kRows - 5 - kAtOnce)));
}

TEST_F(LongReadTest, ItEndsWithTheRowsThatThereWereAtItsBeginning) {
  batch->jobs_added(1);
  EXPECT_EQ(read_all(1, [&] { publish(*batch, {{kRows, JobStatus::kOk, large}}); }), kRows);
  EXPECT_EQ(batch->results().read(kRows - 1, 10, [](const ResultRow&) { return true; }), 2U);
}

TEST_F(LongReadTest, ItEndsWhereRowsAreDiscardedMeanwhile) {
  const auto discard = [&] {
    batch->discard_rows_before(kAtOnce + 1, *batch->results().place_of(kAtOnce + 1));
    batch->drop_rows_before(kAtOnce + 1);
  };
  EXPECT_EQ(read_all(1, discard), kAtOnce);
  EXPECT_THROW(read_all(1, [] {}), std::runtime_error) << "the first row was discarded";
}

using BatchHistoryTest = testing::BatchFixture;

TEST_F(BatchHistoryTest, ARestoredBatchIsWhatTheEarlierProcessLeft) {
  const auto batch = make();
  BatchHistory history;
  history.jobs = 10;
  history.paused = true;
  history.weight = 7;
  history.slots = 5;
  history.attempt = 4;
  history.retried = 3;
  history.superseded = 2;
  history.steps = 9;
  history.job_attempts = {{{3, 5}, {2, 1}}};
  batch->restore(history);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.state, BatchState::kOpen);
  EXPECT_EQ(status.weight, 7u);
  EXPECT_EQ(status.slots, 5u) << "changed since it was submitted";
  EXPECT_EQ(status.retried, 3u);
  EXPECT_EQ(status.superseded.below, 2u);
  EXPECT_EQ(status.steps, 9u);
  EXPECT_TRUE(status.paused);
  EXPECT_FALSE(batch->is_over());
  EXPECT_FALSE(batch->is_stopping());
  EXPECT_EQ(batch->attempts().first(), 4u);
  EXPECT_EQ(batch->attempts().of(2), 4u);
  EXPECT_EQ(batch->attempts().of(3), 6u);
}

// Of a batch that is over.
BatchHistory ended_history(std::uint64_t ok, std::uint64_t failed) {
  BatchHistory history;
  history.jobs = ok + failed;
  history.closed = true;
  history.finished_at = 1;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = ok;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kError)] = failed;
  return history;
}

TEST_F(BatchHistoryTest, ARetryOfABatchThatWasOverRepeatsNoAttempt) {
  const auto batch = make();
  BatchHistory history = ended_history(1, 3);
  history.failed = {{1, 4}};
  history.attempt = 2;
  history.earlier_failures = 5;
  batch->restore(history);
  EXPECT_EQ(batch->attempts().of(1), 2u);
  const std::vector<IndexRange> some{{1, 2}};
  ASSERT_EQ(batch->failures().begin_requeue(some).jobs, 1u);
  (void)batch->failures().requeue();
  EXPECT_EQ(batch->attempts().of(1), 8u) << "attempts 2 to 7 may have been";
  EXPECT_EQ(batch->attempts().of(0), 2u);
  ASSERT_EQ(batch->failures().begin_requeue().jobs, 2u);
  (void)batch->failures().requeue();
  EXPECT_EQ(batch->attempts().of(1), 8u);
  EXPECT_EQ(batch->attempts().of(3), 8u);
}

TEST_F(RestoredBatchTest, WithoutTheListOfItsFailedJobsABatchIsNotRetried) {
  const auto over = make();
  BatchHistory history = ended_history(3, 3);
  history.failed_unread = true;
  over->restore(history);
  EXPECT_TRUE(over->failures().lacks_list());
  EXPECT_THAT(over->failures().jobs(), ElementsAre(IndexRange{0, 6})) << "any of them";
  EXPECT_EQ(over->failures().begin_requeue().jobs, 0u);
  EXPECT_TRUE(over->is_over());
  const auto list = std::make_shared<const std::vector<IndexRange>>(std::vector<IndexRange>{{4, 5}, {0, 2}});
  EXPECT_FALSE(over->failures().set_list(list, 2)) << "a list that lacks one";
  EXPECT_TRUE(over->failures().lacks_list());
  EXPECT_TRUE(over->failures().set_list(list, 3));
  EXPECT_FALSE(over->failures().lacks_list());
  EXPECT_FALSE(over->failures().set_list(list, 3)) << "it is there";
  EXPECT_EQ(over->failures().begin_requeue().jobs, 3u);
  EXPECT_THAT(over->failures().requeue(), ElementsAre(IndexRange{0, 2}, IndexRange{4, 5}));
}

}  // namespace
}  // namespace locksley
