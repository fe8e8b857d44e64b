// What becomes of a batch in the store.
// Length: one claim a test; what they share is short and used throughout.
#include "daemon/store/store.h"

#include <gmock/gmock.h>
#include <rocksdb/db.h>

#include <algorithm>

#include "tests/support/faulty_file_system.h"
#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::add_jobs;
using testing::count_rows;
using testing::FaultyFileSystem;
using ::testing::HasSubstr;
using testing::is_same;
using ::testing::IsEmpty;
using testing::open_batch;
using testing::Outcomes;
using testing::StepMaker;
using testing::StoreBench;
using testing::StoredRow;
using testing::StoreModel;
using Operation = FaultyFileSystem::Operation;
using Tail = FaultyFileSystem::Tail;

constexpr std::size_t kMegabyte = 1U << 20;

EndedJobs ended(std::uint64_t ok, std::uint64_t error) {
  EndedJobs jobs;
  jobs.by_status[static_cast<std::size_t>(JobStatus::ok)] = ok;
  jobs.by_status[static_cast<std::size_t>(JobStatus::error)] = error;
  return jobs;
}

// So many that they go to RocksDB in several parts.
std::vector<std::string> large_payloads() {
  std::vector<std::string> payloads;
  for (int i = 0; i < 6; ++i) payloads.emplace_back(kMegabyte, static_cast<char>('a' + i));
  return payloads;
}

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
  EXPECT_TRUE(recovered.has_value()) << recovered.error();
  return batches;
}

TEST(StoreTest, WhatWasAcknowledgedIsThereAfterwards) {
  StoreBench bench;
  bench.open();
  AcceptBatch accept = accept_batch(1, 10);
  accept.row.options.name = "nightly";
  accept.row.options.keep = Keep::failures;
  accept.row.digest = {1, 2};
  bench.commit(std::move(accept));
  AcceptBatch range{.sequence = 2, .row = {}, .payloads = nullptr};
  range.row.handler = "echo";
  range.row.jobs = 1000;
  range.row.range = {-7, "number {}"};
  bench.commit(range);
  bench.commit(open_batch(3));
  bench.commit(add_jobs(3, 0, {"a", "", "c"}));
  ChangesRow changes;
  changes.is_paused = true;
  changes.weight = 9;
  changes.attempt = 3;
  bench.commit(ChangeBatch{.sequence = 2, .changes = changes});
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  EXPECT_EQ(bench.store->next_sequence(), 4U);
}

TEST(StoreTest, WorksOnTheSystemsOwnFiles) {
  const testing::TemporaryFolder folder;
  StoreModel model;
  for (std::uint64_t sequence = 1; sequence < 4; ++sequence) {
    auto store = Store::open({(folder.path() / "made" / "on demand").string()}, testing::silent_log());
    ASSERT_TRUE(store.has_value()) << store.error();
    const auto picture = testing::picture_of(**store);
    ASSERT_TRUE(picture.has_value()) << picture.error();
    EXPECT_TRUE(is_same(*picture, model.picture()));
    Outcomes outcomes;
    (*store)->start(outcomes.listener());
    const StoreWrite write = accept_batch(sequence, 100);
    model.apply(write);
    EXPECT_EQ(outcomes.await((*store)->put(write, Urgency::kAwaited)).error, "");
    EXPECT_EQ((*store)->stats().errors, 0U);
    (*store)->stop();
  }
}

TEST(StoreTest, ASecondDaemonIsToldThatTheStoreIsInUse) {
  StoreBench bench;
  bench.open();
  const auto second = Store::open(bench.options(), testing::silent_log());
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error(), HasSubstr(bench.folder.path().string()));
  EXPECT_THAT(second.error(), HasSubstr("in use"));
}

TEST(StoreTest, AStoreOfAnotherFormIsRefused) {
  StoreBench bench;
  bench.open();
  bench.close();
  {
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(
        rocksdb::DB::Open({}, bench.folder.path().string(),
                          {{rocksdb::kDefaultColumnFamilyName, {}}, {"payloads", {}}, {"results", {}}},
                          &handles, &opened)
            .ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    ASSERT_TRUE(db->Put({}, handles[0], "m", "locksley 99").ok());
    for (rocksdb::ColumnFamilyHandle* handle : handles)
      ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
  const auto store = Store::open(bench.options(), testing::silent_log());
  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error(), HasSubstr("locksley 99"));
  EXPECT_THAT(store.error(), HasSubstr(bench.folder.path().string()));
}

// ---- What becomes of a batch ----

TEST(StoreTest, StepsTellExactlyWhichJobsAreLeft) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 100));
  StepMaker steps(1);
  bench.put(steps.end_jobs({10, 20}));
  bench.put(steps.end_jobs({{0, 3}, {50, 60}}, ended(11, 2),
                           {{1, JobStatus::error, "bad"}, {50, JobStatus::error, ""}}));
  bench.put(steps.end_jobs({99, 100}));
  bench.put(steps.cancel_jobs({20, 22}, "enough"));
  bench.close();
  auto store = Store::open(bench.options(), testing::silent_log());
  ASSERT_TRUE(store.has_value()) << store.error();
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

TEST(StoreTest, ABatchThatIsOverIsReadAsOverAndLeavesNoPayloads) {
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

TEST(StoreTest, ABatchThatEndsWithTheGroupThatBroughtItLeavesNoPayloads) {
  StoreBench bench;
  bench.open();
  bench.disk->hold(Operation::kSync);
  bench.put(accept_batch(1, 3));
  ASSERT_TRUE(bench.disk->await_held());
  bench.put(accept_batch(2, 10));
  StepMaker steps(2);
  const Ticket ticket = bench.put(StepMaker::as_last(steps.end_jobs({0, 10})));
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(ticket).error, "");
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  bench.close();
  EXPECT_THAT(rows_of_nothing(bench.raw(), bench.model), IsEmpty());
}

TEST(StoreTest, WhatIsNotOverOrNotThereCannotBeLoaded) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 2));
  EXPECT_THAT(bench.store->load(1).error(), HasSubstr("batch number 1"));
  EXPECT_THAT(bench.store->load(2).error(), HasSubstr("batch number 2"));
}

TEST(StoreTest, ABatchWithFailuresKeepsItsPayloads) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  StepMaker steps(1);
  bench.put(StepMaker::as_last(steps.end_jobs({{0, 10}}, ended(9, 1), {{4, JobStatus::error, "bad"}})));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  EXPECT_EQ(payload(*bench.store, 1, 4), "payload 4 of 1");
}

TEST(StoreTest, ResultsAreReadableFromAnyRow) {
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
  bench.put(steps.end_jobs({20, 25}, JobStatus::crashed));
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

TEST(StoreTest, ARowThatTheReaderRefusesIsNotConsumed) {
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

TEST(StoreTest, ResultsThatAreNotThereAreAnError) {
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

TEST(StoreTest, PayloadsAreFoundWhereverTheyLie) {
  StoreBench bench;
  bench.open();
  // Several chunks: by their number, by their size, and by the commands that brought them.
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

TEST(StoreTest, AForgottenBatchLeavesNoRow) {
  // Few rows and many, which are deleted in another way; numbers behind which a key's last bytes carry over.
  for (const std::uint64_t parts : {1U, 40U}) {
    StoreBench bench;
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
    for (const std::uint64_t gone : {0xFF, 0xFFFF}) bench.commit(ForgetBatch{gone});
    EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
    bench.close();
    const auto rows = bench.raw();
    EXPECT_THAT(rows_of_nothing(rows, bench.model), IsEmpty());
    EXPECT_EQ(rows.size(), 3 * (2 + 3 * parts)) << "of the other three all is there";
  }
}

TEST(StoreTest, ABatchIsForgottenWithTheGroupThatBroughtIt) {
  StoreBench bench;
  bench.open();
  bench.disk->hold(Operation::kSync);
  bench.put(accept_batch(1, 3));
  ASSERT_TRUE(bench.disk->await_held());
  bench.put(open_batch(2));
  for (std::uint64_t i = 0; i < 30; ++i) bench.put(add_jobs(2, i, {"payload"}));
  StepMaker steps(2);
  bench.put(steps.end_jobs({0, 30}, JobStatus::error));
  bench.put(steps.end_batch());
  const Ticket ticket = bench.put(ForgetBatch{2});
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(ticket).error, "");
  bench.close();
  EXPECT_THAT(rows_of_nothing(bench.raw(), bench.model), IsEmpty());
  EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
}

TEST(StoreTest, WhatIsTrimmedIsGoneAndComesAnew) {
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

TEST(StoreTest, JobsThatAreAddedWithTheGroupThatTrimsBeforeThemAreThere) {
  // Few, and so many that they go another way.
  for (const std::vector<std::string>& added : {std::vector<std::string>{"c"}, large_payloads()}) {
    StoreBench bench;
    bench.open();
    bench.commit(open_batch(1));
    bench.commit(add_jobs(1, 0, {"a", "b"}));
    bench.disk->hold(Operation::kSync);
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

// ---- What a crash leaves ----

TEST(StoreTest, PayloadsOfABatchThatACrashCutAreRemovedAtTheNextStart) {
  int orphans = 0;
  for (std::uint64_t operations = 0;; ++operations) {
    ASSERT_LT(operations, 100U);
    StoreBench bench;
    bench.open();
    bench.commit(accept_batch(1, 3));
    AcceptBatch large{.sequence = 5, .row = {}, .payloads = testing::payloads_of(large_payloads())};
    large.row.jobs = large_payloads().size();
    // The process ends; what it wrote so far, the system has.
    bench.disk->cut_power(operations);
    const bool was_taken = bench.outcomes->await(bench.store->put(large, Urgency::kAwaited)).error.empty();
    bench.disk->cut_power();
    bench.close();
    bench.disk->restore_power();
    if (was_taken) break;
    testing::Picture found = bench.open();
    if (found.contains(5)) continue;  // all was written, and only the sync was not
    EXPECT_TRUE(is_same(found, bench.model.picture()));
    const bool had_orphans = bench.store->next_sequence() == 6;
    orphans += had_orphans ? 1 : 0;
    bench.flush();
    bench.close();
    EXPECT_THAT(rows_of_nothing(bench.raw(), bench.model), IsEmpty()) << operations;
  }
  EXPECT_GT(orphans, 0) << "this shows nothing";
}

// As when the group that refused a batch is written again, its end with it, and the process ends before the
// batch is forgotten.
TEST(StoreTest, RowsOfABatchThatIsNotThereDoNotBecomeTheNextBatchs) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 3));
  StepMaker steps(2);
  bench.store->put(StepMaker::as_last(steps.cancel_jobs({0, 5}, "the store could not take it")),
                   Urgency::kWithNext);
  ChangesRow changes;
  changes.is_cancelled = true;
  EXPECT_EQ(bench.outcomes
                ->await(bench.store->put(ChangeBatch{.sequence = 3, .changes = changes}, Urgency::kAwaited))
                .error,
            "");
  for (int batches = 0; batches < 2; ++batches) {
    bench.reopen();
    bench.commit(accept_batch(bench.store->next_sequence(), 7));
    EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  }
}

TEST(StoreTest, JobsThatAreAddedAppearWholeOrNotAtAll) {
  for (std::uint64_t operations = 0;; ++operations) {
    StoreBench bench(operations);
    bench.open();
    bench.commit(open_batch(1));
    bench.commit(add_jobs(1, 0, {"a", "b"}));
    const testing::Picture before = bench.model.picture();
    bench.disk->cut_power(operations);
    const Ticket ticket = bench.put(add_jobs(1, 2, large_payloads()));
    const bool was_taken = bench.outcomes->await(ticket).error.empty();
    bench.disk->cut_power();
    bench.close();
    bench.disk->lose_power(Tail::kTorn);
    const testing::Picture after = bench.open();
    if (after != before || was_taken) {
      EXPECT_TRUE(is_same(after, bench.model.picture())) << operations;
    }
    if (was_taken) break;
    ASSERT_LT(operations, 100U);
    if (after != before) continue;
    // As the server does with what is open.
    ChangesRow changes;
    changes.jobs = 2;
    EXPECT_EQ(
        bench.outcomes
            ->await(bench.store->put(ChangeBatch{.sequence = 1, .changes = changes, .trims_payloads = true},
                                     Urgency::kAwaited))
            .error,
        "");
    bench.close();
    EXPECT_EQ(count_rows(bench.raw(), 1, "payloads"), 1U) << operations;
  }
}

}  // namespace
}  // namespace locksley::daemon
