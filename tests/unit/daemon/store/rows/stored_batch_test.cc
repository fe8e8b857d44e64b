// The life of a batch in the store.

#include <gmock/gmock.h>

#include <algorithm>

#include "daemon/store/store.h"
#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::add_jobs;
using testing::count_rows;
using testing::ended;
using ::testing::HasSubstr;
using testing::is_same;
using ::testing::IsEmpty;
using testing::large_payloads;
using testing::open_batch;
using testing::StepMaker;
using testing::StoreBench;
using testing::StoredRow;

std::vector<StoredRow> read_rows(Store& store, std::uint64_t sequence, std::uint64_t first,
                                 std::uint64_t most) {
  std::vector<StoredRow> rows;
  store.journal(sequence)->read_rows(first, most, [&](const ResultRow& row) {
    rows.push_back({row.index, row.status, std::string(row.output)});
    return true;
  });
  return rows;
}

std::string payload(Store& store, std::uint64_t sequence, std::uint64_t index) {
  std::string scratch;
  std::string_view view;
  store.payloads(sequence)->fetch(index, {&view, 1}, scratch);
  return std::string(view);
}

std::vector<StoredBatch> recover(Store& store) {
  std::vector<StoredBatch> batches;
  const auto recovered = store.recover([&](StoredBatch batch) { batches.push_back(std::move(batch)); });
  EXPECT_TRUE(recovered.has_value()) << recovered.error().what;
  return batches;
}

TEST(StoredBatchTest, StepsTellExactlyWhichJobsAreLeft) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 100));
  StepMaker steps(1);
  bench.put(steps.end_jobs({10, 20}));
  bench.put(steps.end_jobs({{0, 3}, {50, 60}}, ended(11, 2),
                           {{1, JobStatus::kError, "bad"}, {50, JobStatus::kError, ""}}));
  bench.put(steps.end_jobs({99, 100}));
  bench.put(steps.cancel_jobs({20, 22}, "enough"));
  bench.close();
  auto store = Store::open(bench.options(), testing::silent_log());
  ASSERT_TRUE(store.has_value()) << store.error().what;
  const std::vector<StoredBatch> batches = recover(**store);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].left, (std::vector<IndexRange>{{3, 10}, {22, 50}, {60, 99}}));
  EXPECT_EQ(batches[0].history.totals.total(), 26U);
  EXPECT_EQ(batches[0].history.totals.failed(), 2U);
  EXPECT_EQ(batches[0].history.rows, 15U);
  EXPECT_EQ(batches[0].history.steps, 4U);
  EXPECT_TRUE(batches[0].history.cancelled);
  EXPECT_EQ(batches[0].history.stop_reason, "enough");
}

TEST(StoredBatchTest, ABatchThatIsOverIsReadAsOverAndLeavesNoPayloads) {
  for (const std::uint64_t steps_before : {0U, 3U, 40U}) {
    StoreBench bench;
    bench.open();
    bench.commit(accept_batch(1, 100));
    bench.commit(accept_batch(2, 100));
    StepMaker steps(1);
    for (std::uint64_t i = 0; i < steps_before; ++i) bench.put(steps.end_jobs({i, i + 1}));
    bench.put(StepMaker::as_last(steps.end_jobs({steps_before, 100})));
    EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
    bench.close();
    const auto rows = bench.raw();
    EXPECT_EQ(count_rows(rows, 1, "payloads"), 0U);
    EXPECT_EQ(count_rows(rows, 1, "index"), 2U) << "what was accepted, and the end";
    EXPECT_EQ(count_rows(rows, 2, "payloads"), 1U);
  }
}

TEST(StoredBatchTest, OfABatchThatIsOverItIsKnownHowOftenAJobMayHaveFailed) {
  StoreBench bench;
  bench.open();
  auto accepted = accept_batch(1, 3);
  accepted.row.options.retries = 2;
  bench.commit(std::move(accepted));
  StepMaker steps(1);
  bench.put(StepMaker::as_last(steps.end_jobs({{0, 3}}, ended(2, 1), {{1, JobStatus::kError, "bad"}})));
  bench.close();
  auto store = Store::open(bench.options(), testing::silent_log());
  ASSERT_TRUE(store.has_value()) << store.error().what;
  const std::vector<StoredBatch> batches = recover(**store);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].history.earlier_failures, 2U);
}

// Results that a client has discarded.
TEST(StoredBatchTest, DiscardedResultsLeaveTheStoreAndTheOthersStay) {
  for (const std::uint64_t steps_of_one : {3U, 40U}) {
    StoreBench bench;
    bench.open();
    bench.commit(accept_batch(1, 100));
    StepMaker steps(1);
    for (std::uint64_t i = 0; i < steps_of_one; ++i) {
      bench.put(steps.end_jobs({{i, i + 1}}, ended(1, 0), {{i, JobStatus::kOk, "output"}}));
    }
    bench.put(
        steps.end_jobs({{50, 52}}, ended(2, 0), {{50, JobStatus::kOk, "a"}, {51, JobStatus::kOk, "b"}}));
    const Ticket written = bench.put(steps.end_jobs({{60, 61}}, ended(1, 0), {{60, JobStatus::kOk, "c"}}));
    ASSERT_EQ(bench.outcomes->await(bench.put(open_batch(2))).error, "");
    ASSERT_TRUE(bench.store->is_written(written));
    const auto place = bench.store->place_of_result(1, steps_of_one + 1);
    ASSERT_TRUE(place.has_value()) << place.error();
    EXPECT_EQ(place->first_row, steps_of_one) << "the step that has the row";
    EXPECT_GT(place->bytes_before, 6 * steps_of_one);
    ChangesRow changes;
    changes.discarded_rows = steps_of_one + 1;
    changes.discarded_bytes = place->bytes_before;
    bench.store->put(ChangeBatch{.sequence = 1, .changes = changes, .freed_rows = {0, place->first_row}},
                     Urgency::kAwaited);
    bench.close();
    EXPECT_EQ(count_rows(bench.raw(), 1, "results"), 2U);
    auto store = Store::open(bench.options(), testing::silent_log());
    ASSERT_TRUE(store.has_value()) << store.error().what;
    const std::vector<StoredBatch> batches = recover(**store);
    ASSERT_EQ(batches.size(), 2U);
    EXPECT_EQ(batches[0].history.rows, steps_of_one + 3);
    EXPECT_EQ(batches[0].history.discarded, steps_of_one + 1);
    EXPECT_EQ(batches[0].history.discarded_bytes, place->bytes_before);
    EXPECT_EQ(batches[0].left.size(), 3U) << "the counters still agree with the steps";
    const std::vector<StoredRow> left{{51, JobStatus::kOk, "b"}, {60, JobStatus::kOk, "c"}};
    EXPECT_EQ(read_rows(**store, 1, steps_of_one + 1, 2), left);
    EXPECT_FALSE((*store)->place_of_result(1, steps_of_one - 1).has_value());
  }
}

TEST(StoredBatchTest, ABatchThatEndsWithTheGroupThatBroughtItLeavesNoPayloads) {
  StoreBench bench;
  bench.open();
  bench.disk->hold_syncs();
  bench.put(accept_batch(1, 3));
  ASSERT_TRUE(bench.disk->await_held());
  // So many that they have rows of their own.
  bench.put(accept_batch(2, 100));
  StepMaker steps(2);
  const Ticket ticket = bench.put(StepMaker::as_last(steps.end_jobs({0, 100})));
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(ticket).error, "");
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.close();
  EXPECT_THAT(rows_of_nothing(bench.raw(), bench.model), IsEmpty());
}

TEST(StoredBatchTest, WhatIsNotOverOrNotThereCannotBeLoaded) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 2));
  EXPECT_THAT(bench.store->load(1).error(), HasSubstr("batch number 1"));
  EXPECT_THAT(bench.store->load(2).error(), HasSubstr("batch number 2"));
}

TEST(StoredBatchTest, ABatchWithFailuresKeepsItsPayloads) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  StepMaker steps(1);
  bench.put(StepMaker::as_last(steps.end_jobs({{0, 10}}, ended(9, 1), {{4, JobStatus::kError, "bad"}})));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  EXPECT_EQ(payload(*bench.store, 1, 4), "payload 4 of 1");
}

TEST(StoredBatchTest, ResultsAreReadableFromAnyRow) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 100));
  bench.commit(accept_batch(2, 100));
  StepMaker steps(1);
  StepMaker others(2);
  bench.put(others.end_jobs({0, 9}));
  bench.put(steps.end_jobs({0, 10}));
  bench.put(steps.end_jobs({{10, 20}}, ended(10, 0), {}));
  bench.put(steps.end_jobs({50, 51}));
  bench.put(steps.cancel_jobs({60, 80}, "enough"));
  bench.put(steps.end_jobs({20, 25}, JobStatus::kCrashed));
  bench.put(StepMaker::as_last(steps.cancel_jobs({90, 100}, "enough")));
  for (int round = 0; round < 2; ++round) {
    bench.flush();
    const std::vector<StoredRow>& rows = bench.model.batches[1].rows;
    ASSERT_EQ(rows.size(), 46U);
    for (std::uint64_t first = 0; first < rows.size(); ++first) {
      for (std::uint64_t most = 0; most <= rows.size() - first; ++most) {
        const std::vector<StoredRow> expected(rows.begin() + static_cast<std::ptrdiff_t>(first),
                                              rows.begin() + static_cast<std::ptrdiff_t>(first + most));
        ASSERT_EQ(read_rows(*bench.store, 1, first, most), expected) << "from " << first << ", " << most;
      }
    }
    bench.reopen();
  }
}

TEST(StoredBatchTest, ARowThatTheReaderRefusesIsNotConsumed) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  StepMaker steps(1);
  bench.put(steps.end_jobs({0, 2}));
  bench.put(steps.end_jobs({2, 4}));
  bench.put(steps.cancel_jobs({4, 8}, "enough"));
  bench.flush();
  const std::unique_ptr<BatchJournal> journal = bench.store->journal(1);
  for (std::uint64_t wanted = 0; wanted < 8; ++wanted) {
    std::uint64_t seen = 0;
    EXPECT_EQ(journal->read_rows(0, 8, [&](const ResultRow&) { return seen++ < wanted; }), wanted);
  }
}

TEST(StoredBatchTest, ResultsThatAreNotThereAreAnError) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  bench.commit(accept_batch(2, 10));
  StepMaker steps(2);
  bench.put(steps.end_jobs({0, 5}));
  bench.flush();
  EXPECT_THROW(read_rows(*bench.store, 1, 0, 1), std::runtime_error);
  EXPECT_THROW(read_rows(*bench.store, 2, 0, 6), std::runtime_error);
  EXPECT_THROW(read_rows(*bench.store, 2, 5, 1), std::runtime_error);
  EXPECT_THROW(read_rows(*bench.store, 3, 0, 1), std::runtime_error);
}

TEST(StoredBatchTest, PayloadsAreFoundWhereverTheyLie) {
  StoreBench bench;
  bench.open();
  // Several chunks: by the number of payloads, by their size, and by the commands that added them.
  std::vector<std::string> payloads;
  for (int i = 0; i < 9000; ++i) payloads.push_back(std::to_string(i));
  bench.commit(open_batch(1));
  bench.commit(add_jobs(1, 0, payloads));
  const std::vector<std::string> large{std::string(200'000, 'x'), "", std::string(100'000, 'y'),
                                       std::string(100'000, 'z')};
  bench.commit(add_jobs(1, 9000, large));
  payloads.insert(payloads.end(), large.begin(), large.end());
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  const std::unique_ptr<PayloadSource> source = bench.store->payloads(1);
  std::string scratch;
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{4095}, std::uint64_t{4096},
                                    std::uint64_t{8999}, std::uint64_t{9003}}) {
    std::vector<std::string_view> views(std::min<std::uint64_t>(1500, payloads.size() - first));
    source->fetch(first, views, scratch);
    for (std::size_t i = 0; i < views.size(); ++i) ASSERT_EQ(views[i], payloads[first + i]) << first + i;
  }
  std::string_view view;
  EXPECT_THROW(source->fetch(9004, {&view, 1}, scratch), std::runtime_error);
  EXPECT_THROW(bench.store->payloads(2)->fetch(0, {&view, 1}, scratch), std::runtime_error);
}

TEST(StoredBatchTest, PayloadsThatAreReadBackTakeABoundedMemoryUntilTheyAreDropped) {
  StoreBench bench;
  bench.open();
  constexpr std::uint64_t kSmall = 500;  // 30 chunks of them
  bench.commit(open_batch(1));
  bench.commit(add_jobs(1, 0, std::vector<std::string>(kSmall, std::string(8000, 'x'))));
  bench.commit(add_jobs(1, kSmall, large_payloads()));
  const std::unique_ptr<PayloadSource> source = bench.store->payloads(1);
  std::string scratch;
  std::string_view view;
  for (std::uint64_t index = 0; index < kSmall; ++index) {
    ASSERT_EQ(source->fetch(index, {&view, 1}, scratch), 1U);
    ASSERT_LE(source->memory_bytes(), 8U * 130 * 1024);
  }
  const std::uint64_t kept = source->memory_bytes();
  EXPECT_GT(kept, 500'000U);
  ASSERT_EQ(source->fetch(kSmall + 1, {&view, 1}, scratch), 1U);
  EXPECT_EQ(view, large_payloads()[1]);
  EXPECT_EQ(source->memory_bytes(), kept) << "a large payload is not kept";
  source->drop_cached();
  EXPECT_EQ(source->memory_bytes(), 0U);
  ASSERT_EQ(source->fetch(0, {&view, 1}, scratch), 1U);
  EXPECT_EQ(view, std::string(8000, 'x'));
}

TEST(StoredBatchTest, AForgottenBatchLeavesNoRow) {
  // Few rows and many, which are deleted in different ways; and numbers after which the last bytes
  // of a key carry over.
  for (const std::uint64_t parts : {1U, 40U}) {
    StoreBench bench;
    bench.compact_steps = StepCompactor::kSteps;
    bench.open();
    const std::uint64_t sequences[] = {0xFE, 0xFF, 0x100, 0xFFFF, 0x10000};
    for (const std::uint64_t sequence : sequences) {
      bench.commit(open_batch(sequence));
      StepMaker steps(sequence);
      for (std::uint64_t part = 0; part < parts; ++part) {
        bench.commit(add_jobs(sequence, part * 2, {"first", "second"}));
        bench.put(steps.end_jobs({part * 2, part * 2 + 1}));
      }
    }
    bench.flush();
    for (const std::uint64_t gone : {0xFFU, 0xFFFFU}) bench.commit(ForgetBatch{gone});
    EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
    bench.close();
    const auto rows = bench.raw();
    EXPECT_THAT(rows_of_nothing(rows, bench.model), IsEmpty());
    EXPECT_EQ(rows.size(), 3 * (2 + 3 * parts)) << "of the other three all is there";
  }
}

TEST(StoredBatchTest, ABatchIsForgottenWithTheGroupThatBroughtIt) {
  StoreBench bench;
  bench.open();
  bench.disk->hold_syncs();
  bench.put(accept_batch(1, 3));
  ASSERT_TRUE(bench.disk->await_held());
  bench.put(open_batch(2));
  for (std::uint64_t i = 0; i < 30; ++i) bench.put(add_jobs(2, i, {"payload"}));
  StepMaker steps(2);
  bench.put(steps.end_jobs({0, 30}, JobStatus::kError));
  bench.put(steps.end_batch());
  const Ticket ticket = bench.put(ForgetBatch{2});
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(ticket).error, "");
  bench.close();
  EXPECT_THAT(rows_of_nothing(bench.raw(), bench.model), IsEmpty());
  EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
}

TEST(StoredBatchTest, WhatIsTrimmedIsGoneAndComesAnew) {
  StoreBench bench;
  bench.open();
  bench.commit(open_batch(1));
  bench.commit(accept_batch(2, 5));
  bench.commit(add_jobs(1, 0, {"a", "b"}));
  bench.commit(add_jobs(1, 2, {"refused", "refused", "refused"}));
  ChangesRow changes;
  changes.jobs = 2;
  bench.commit(ChangeBatch{.sequence = 1, .changes = changes, .trims_payloads = true});
  EXPECT_THROW(payload(*bench.store, 1, 2), std::runtime_error);
  bench.commit(add_jobs(1, 2, {"c"}));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(payload(*bench.store, 1, 1), "b");
    EXPECT_EQ(payload(*bench.store, 1, 2), "c");
    EXPECT_THROW(payload(*bench.store, 1, 3), std::runtime_error);
    EXPECT_EQ(payload(*bench.store, 2, 4), "payload 4 of 2");
    EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  }
}

TEST(StoredBatchTest, JobsThatAreAddedWithTheGroupThatTrimsBeforeThemAreThere) {
  // Few steps, and so many that they are deleted as a range.
  for (const std::vector<std::string>& added : {std::vector<std::string>{"c"}, large_payloads()}) {
    StoreBench bench;
    bench.open();
    bench.commit(open_batch(1));
    bench.commit(add_jobs(1, 0, {"a", "b"}));
    bench.disk->hold_syncs();
    bench.put(accept_batch(2, 3));
    ASSERT_TRUE(bench.disk->await_held());
    ChangesRow changes;
    changes.jobs = 2;
    bench.put(ChangeBatch{.sequence = 1, .changes = changes, .trims_payloads = true});
    const Ticket ticket = bench.put(add_jobs(1, 2, added));
    bench.disk->release();
    EXPECT_EQ(bench.outcomes->await(ticket).error, "");
    EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  }
}

}  // namespace
}  // namespace locksley::daemon
