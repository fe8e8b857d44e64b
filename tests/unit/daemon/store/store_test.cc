// A store is opened: by the first, a later and a second daemon.
#include "daemon/store/store.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::add_jobs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::is_same;
using testing::open_batch;
using testing::StepMaker;
using testing::StoreBench;

TEST(StoreTest, WhatWasAcknowledgedIsThereAfterwards) {
  StoreBench bench;
  bench.open();
  AcceptBatch accept = accept_batch(1, 10);
  accept.row.options.name = "nightly";
  accept.row.options.keep = Keep::kFailures;
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

TEST(StoreTest, NoNumberIsUsedTwiceThoughItsBatchHasNoRows) {
  StoreBench bench;
  ASSERT_TRUE(bench.try_recover());
  const std::uint64_t first = bench.store->begin_numbers().value().first;
  EXPECT_EQ(first, 1U);
  bench.store.reset();  // as after a crash: nothing else was written
  ASSERT_TRUE(bench.try_recover());
  const Store::Numbers second = bench.store->begin_numbers().value();
  EXPECT_EQ(second.first, first + Store::kNumbersAhead);
  EXPECT_LT(second.renew_at, second.first + Store::kNumbersAhead);

  bench.start();
  EXPECT_GT(bench.store->renew_numbers(second.renew_at), second.renew_at);
  bench.flush();
  bench.close();
  ASSERT_TRUE(bench.try_recover());
  EXPECT_EQ(bench.store->begin_numbers().value().first, second.renew_at + Store::kNumbersAhead);
}

// Each start leaves a billion numbers out.
TEST(StoreTest, RowsOfNoBatchAreDeletedHoweverFarTheirNumberLiesFromTheLast) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 3));
  ChangesRow changes;
  changes.is_cancelled = true;
  const std::uint64_t far = 1 + 100 * Store::kNumbersAhead;
  bench.store->put(ChangeBatch{.sequence = far, .changes = changes}, Urgency::kWithNext);
  StepMaker steps(2);
  bench.store->put(StepMaker::as_last(steps.cancel_jobs({0, 5}, "the store refused the batch")),
                   Urgency::kWithNext);
  bench.flush();
  bench.reopen();
  EXPECT_EQ(bench.store->next_sequence(), far + 1);
  bench.flush();
  bench.close();
  EXPECT_THAT(rows_of_nothing(bench.raw(), bench.model), ::testing::IsEmpty());
}

TEST(StoreTest, NumbersThatCannotBeReservedAtTheStartAreReservedOnceTheDiskTakesThem) {
  StoreBench bench;
  ASSERT_TRUE(bench.try_recover());
  bench.disk->fail_next_sync();
  EXPECT_EQ(bench.store->begin_numbers().value().first, 1U);
  bench.start();
  bench.flush();
  bench.close();
  ASSERT_TRUE(bench.try_recover());
  EXPECT_EQ(bench.store->begin_numbers().value().first, 1 + Store::kNumbersAhead);
}

TEST(StoreTest, AnOpenBatchThatWasCancelledTakesNoFurtherJobs) {
  StoreBench bench;
  bench.open();
  bench.commit(open_batch(1));
  bench.commit(add_jobs(1, 0, {"a", "b", "c"}));
  ChangesRow changes;
  changes.jobs = 3;
  changes.is_cancelled = true;
  bench.commit(ChangeBatch{.sequence = 1, .changes = changes});
  // The daemon ended before it had written that these jobs do not run.
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(StoreTest, SettingsOfCustomersAreThereAfterwards) {
  StoreBench bench;
  bench.open();
  const auto rows = [&] {
    std::vector<std::string> found;
    const auto read = bench.store->read_customers([&](const CustomerRow& row) {
      found.push_back(row.user + "/" + row.customer + ":" + std::to_string(row.settings.weight.value_or(0)));
    });
    EXPECT_TRUE(read.has_value()) << read.error().what;
    return found;
  };
  bench.commit(SetCustomer{{"shop", "b", {.weight = 1}}});
  bench.commit(SetCustomer{{"shop", "", {.weight = 2}}});
  bench.commit(accept_batch(1, 3));
  bench.commit(SetCustomer{{"mill", "a/b", {.weight = 3}}});
  bench.commit(SetCustomer{{"shop", "b", {.weight = 4}}});
  bench.reopen();
  EXPECT_THAT(rows(), ElementsAre("mill/a/b:3", "shop/:2", "shop/b:4"));
  bench.commit(SetCustomer{{"shop", "b", {}}});
  EXPECT_THAT(rows(), ElementsAre("mill/a/b:3", "shop/:2"));
}

TEST(StoreTest, ASecondDaemonIsToldThatTheStoreIsInUse) {
  StoreBench bench;
  bench.open();
  const auto second = Store::open(bench.options(), testing::silent_log());
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().what, HasSubstr(bench.place()));
  EXPECT_THAT(second.error().what, HasSubstr("in use"));
}

TEST(StoreTest, AStoreOfAnotherFormIsRefused) {
  StoreBench bench;
  bench.open();
  bench.close();
  bench.edit([](Engine::Group& rows) { rows.put(Table::kIndex, Key(kFormKey), "locksley 99"); });
  const auto store = Store::open(bench.options(), testing::silent_log());
  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().what, HasSubstr("locksley 99"));
  EXPECT_THAT(store.error().what, HasSubstr(bench.place()));
}

}  // namespace
}  // namespace locksley::daemon
