// A small batch takes two rows in its life: with its payloads and with its results.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::count_rows;
using testing::is_same;
using ::testing::IsEmpty;
using testing::StepMaker;
using testing::StoreBench;
using testing::StoredRow;

TEST(SplitRowTest, WhatIsJoinedIsSplitAgainAndOtherRowsHaveNothingInside) {
  const std::string inside(300, 'i');
  const std::string joined = join_rows("row", inside);
  const auto split = split_row(joined);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->row, "row");
  EXPECT_EQ(split->inside, inside);
  for (std::size_t size = 0; size < joined.size() - 3; ++size) {
    const auto cut = split_row(std::string_view(joined).substr(0, size));
    EXPECT_TRUE(size < 2 || !cut || cut->row.size() < 3) << size;
  }
  AcceptedRow accepted;
  for (const std::string& row : {encode(accepted), encode(BatchStep{}), std::string()}) {
    const auto plain = split_row(row);
    ASSERT_TRUE(plain.has_value());
    EXPECT_EQ(plain->row, row);
    EXPECT_THAT(plain->inside, IsEmpty());
  }
}

// The first of `jobs` small jobs; all end in one step.
RecordStep all_end(std::uint64_t sequence, std::uint64_t jobs) {
  StepMaker steps(sequence);
  return StepMaker::as_last(steps.end_jobs({0, jobs}));
}
ForgetBatch forget(std::uint64_t sequence) {
  return {.sequence = sequence,
          .rows = {.parts = PayloadParts::kInRow,
                   .has_one_step = true,
                   .may_have_failed_rows = false,
                   .may_have_marks = false,
                   .may_have_changes = false,
                   .has_results_inside = true}};
}

TEST(SmallBatchTest, TakesOneRowUntilItsEndThenTwoAndThenNone) {
  StoreBench bench;
  bench.open();
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) bench.commit(accept_batch(sequence, 2));
  bench.put(all_end(2, 2));
  bench.put(all_end(3, 2));
  bench.flush();
  bench.commit(forget(3));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.close();
  EXPECT_EQ(count_rows(bench.raw(), 1), 1U);
  EXPECT_EQ(count_rows(bench.raw(), 2), 2U);
  EXPECT_EQ(count_rows(bench.raw(), 2, "index"), 2U);
  EXPECT_EQ(count_rows(bench.raw(), 3), 0U);
}

TEST(SmallBatchTest, ALargerOneHasRowsOfItsOwn) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 100));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.put(all_end(1, 100));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.close();
  EXPECT_EQ(count_rows(bench.raw(), 1, "index"), 2U);
  EXPECT_EQ(count_rows(bench.raw(), 1, "results"), 1U);
  EXPECT_EQ(count_rows(bench.raw(), 1, "payloads"), 0U);
}

TEST(SmallBatchTest, ItsResultsAndPayloadsAreReadFromAnyPlaceOn) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 3));
  std::string scratch;
  std::vector<std::string_view> payloads(2);
  EXPECT_EQ(bench.store->payloads(1)->fetch(1, payloads, scratch), 2U);
  EXPECT_EQ(payloads[0], "payload 1 of 1");
  EXPECT_EQ(payloads[1], "payload 2 of 1");
  bench.put(all_end(1, 3));
  bench.flush();
  const auto journal = bench.store->journal(1);
  std::vector<std::uint64_t> read;
  const auto visit = [&](const ResultRow& row) {
    read.push_back(row.index);
    return row.index != 1;
  };
  EXPECT_EQ(journal->read_rows(2, 1, visit), 1U);
  EXPECT_EQ(journal->read_rows(0, 3, visit), 1U) << "the row that was refused does not count";
  EXPECT_THAT(read, ::testing::ElementsAre(2, 0, 1));
  EXPECT_THROW(journal->read_rows(3, 1, visit), std::runtime_error);
  EXPECT_EQ(journal->read_others(0, 3, [](std::uint64_t, const ResultRow&) { return true; }), 3U);
  const auto place = bench.store->place_of_result(1, 2);
  ASSERT_TRUE(place.has_value()) << place.error();
  EXPECT_EQ(*place, (ResultLog::Place{0, 0}));
  EXPECT_FALSE(bench.store->place_of_result(7, 0).has_value());
}

TEST(SmallBatchTest, ResultsThatAreDiscardedLeaveItsRow) {
  StoreBench bench;
  bench.open();
  const auto discard = [&](std::uint64_t sequence) {
    ChangesRow changes;
    changes.discarded_rows = 2;
    changes.discarded_bytes = 30;
    return ChangeBatch{.sequence = sequence, .changes = changes, .freed_rows = {0, 2}};
  };
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) bench.commit(accept_batch(sequence, 2));
  // Of the first in a later group, of the second in the same one, of the third not at all.
  bench.put(all_end(1, 2));
  bench.flush();
  bench.disk->hold_syncs();
  bench.put(discard(1));
  ASSERT_TRUE(bench.disk->await_held());
  bench.put(all_end(2, 2));
  bench.put(all_end(3, 2));
  const Ticket last = bench.put(discard(2));
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(last).error, "");
  for (const std::uint64_t sequence : {1U, 2U}) {
    EXPECT_THROW(bench.store->journal(sequence)->read_rows(0, 2, [](const ResultRow&) { return true; }),
                 std::runtime_error);
  }
  EXPECT_EQ(bench.store->journal(3)->read_rows(0, 2, [](const ResultRow&) { return true; }), 2U);
  EXPECT_FALSE(bench.store->load(1)->has_results_inside);
  EXPECT_EQ(bench.store->load(2)->history.discarded, 2U);
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
    ForgetBatch forgotten = forget(sequence);
    forgotten.rows.may_have_changes = sequence != 3;
    bench.commit(forgotten);
  }
  bench.close();
  EXPECT_THAT(testing::rows_of_nothing(bench.raw(), bench.model), IsEmpty());
}

TEST(SmallBatchTest, AfterARestartItIsKnownWhichRowsItHas) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 2));
  bench.commit(accept_batch(2, 100));
  bench.commit(ChangeBatch{.sequence = 2, .changes = {}});
  bench.put(all_end(1, 2));
  bench.put(all_end(2, 100));
  bench.reopen();
  const auto small = bench.store->load(1);
  const auto large = bench.store->load(2);
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->parts, PayloadParts::kInRow);
  EXPECT_TRUE(small->has_results_inside);
  EXPECT_FALSE(small->has_changes);
  EXPECT_NE(small->payload_bytes, 0U);
  EXPECT_EQ(large->parts, PayloadParts::kUnknown);
  EXPECT_FALSE(large->has_results_inside);
  EXPECT_TRUE(large->has_changes);
  EXPECT_EQ(large->payload_bytes, 0U);
}

TEST(SmallBatchTest, WhoseJobsFailKeepsItsResultsApartAndItsPayloadsForARetry) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 2));
  StepMaker steps(1);
  EndedJobs ended;
  ended.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 1;
  ended.by_status[static_cast<std::size_t>(JobStatus::kError)] = 1;
  RecordStep end =
      steps.end_jobs({{0, 2}}, ended, {{0, JobStatus::kOk, "fine"}, {1, JobStatus::kError, "bad"}});
  end.step.failed = {{1, 2}};
  bench.put(StepMaker::as_last(std::move(end)));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.put(steps.requeue({{1, 2}}, {{{1, 2}, {1, 1}}}, std::vector<IndexRange>{{0, 1}}));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.put(StepMaker::as_last(steps.end_jobs({1, 2})));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(SmallBatchTest, WhatAGroupForgetsItDoesNotWriteBefore) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 2));
  bench.commit(accept_batch(2, 2));
  // All these share a group.
  bench.disk->hold_syncs();
  bench.put(accept_batch(3, 2));
  ASSERT_TRUE(bench.disk->await_held());
  ChangesRow changes;
  changes.weight = 7;
  bench.put(ChangeBatch{.sequence = 2, .changes = changes});
  bench.put(all_end(1, 2));
  bench.put(all_end(2, 2));
  bench.put(forget(1));
  ForgetBatch changed = forget(2);
  changed.rows.may_have_changes = true;
  const Ticket last = bench.put(changed);
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(last).error, "");
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.close();
  EXPECT_EQ(count_rows(bench.raw(), 1) + count_rows(bench.raw(), 2), 0U);
}

// The deletion of a batch says what need not be deleted: it is the same for the batch and for the
// step.
TEST(SmallBatchTest, AStepAndTheStatusAfterItAgreeWhereTheResultsAre) {
  for (const std::uint64_t jobs : {1U, 2U, 40U, 100U}) {
    const RecordStep end = all_end(1, jobs);
    BatchStatus status{};
    status.steps = 1;
    status.ok = jobs;
    status.rows = end.step.row_count;
    status.result_bytes = end.step.result_bytes;
    EXPECT_EQ(has_results_inside(end.step), has_results_inside(status)) << jobs;
  }
}

}  // namespace
}  // namespace locksley::daemon
