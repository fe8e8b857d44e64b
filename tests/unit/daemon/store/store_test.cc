// A store is opened: by the first, a later and a second daemon.
#include "daemon/store/store.h"

#include <gmock/gmock.h>
#include <rocksdb/db.h>

#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::add_jobs;
using ::testing::HasSubstr;
using testing::is_same;
using testing::open_batch;
using testing::Outcomes;
using testing::StoreBench;
using testing::StoreModel;

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

TEST(StoreTest, AfterABurstOfWritesItShowsTheBytesThatItsFilesHave) {
  const testing::TemporaryFolder folder;
  auto store = Store::open({folder.path().string()}, testing::silent_log());
  ASSERT_TRUE(store.has_value()) << store.error();
  ASSERT_TRUE(testing::picture_of(**store).has_value());
  Outcomes outcomes;
  (*store)->start(outcomes.listener());
  const std::uint64_t before = (*store)->stats().disk_bytes;
  constexpr std::size_t kBytes = 100'000;
  constexpr std::uint64_t kBatches = 20;
  for (std::uint64_t sequence = 1; sequence <= kBatches; ++sequence) {
    (*store)->put(open_batch(sequence), Urgency::kAwaited);
    const StoreWrite write = add_jobs(sequence, 0, {std::string(kBytes, 'x')});
    EXPECT_EQ(outcomes.await((*store)->put(write, Urgency::kAwaited)).error, "");
  }
  EXPECT_TRUE(
      testing::wait_until_true([&] { return (*store)->stats().disk_bytes >= before + kBatches * kBytes; }));
  (*store)->stop();
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

}  // namespace
}  // namespace locksley::daemon
