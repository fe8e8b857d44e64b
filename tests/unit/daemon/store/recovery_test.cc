// What a start reads.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/store/store.h"
#include "tests/support/memory_engine.h"
#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::StepMaker;

// A store on a disk in memory that was filled and closed. Opens it anew with open().
class FilledStore {
 public:
  explicit FilledStore(const std::function<void(Store&)>& fill) {
    testing::Outcomes outcomes;
    const auto store = open();
    EXPECT_TRUE(store->recover([](const StoredBatch&) {}));
    store->start(outcomes.listener());
    fill(*store);
    store->stop();
  }
  std::unique_ptr<Store> open() {
    return *Store::open({.path = folder_.path().string(), .engine = disk_.engine()}, testing::silent_log());
  }
  std::uint64_t readings() const { return disk_.readings; }
  testing::MemoryDisk& disk() { return disk_; }

 private:
  const testing::TemporaryFolder folder_;
  testing::MemoryDisk disk_{folder_.path()};
};

// A reading takes a round trip where the engine is on another machine.
TEST(RecoveryTest, AStartReadsManyUnfinishedBatchesAsOftenAsFew) {
  const auto readings_of = [](std::uint64_t count) {
    FilledStore filled([count](Store& store) {
      for (std::uint64_t batch = 1; batch <= count; ++batch) {
        store.put(accept_batch(batch, 3), Urgency::kAwaited);
        store.put(StepMaker(batch).end_jobs({0, 1}), Urgency::kWithNext);
      }
    });
    const auto store = filled.open();
    const std::uint64_t before = filled.readings();
    std::uint64_t found = 0;
    EXPECT_TRUE(store->recover([&](const StoredBatch& batch) {
      EXPECT_EQ(batch.left, (std::vector<IndexRange>{{1, 3}}));
      ++found;
    }));
    EXPECT_EQ(found, count);
    return filled.readings() - before;
  };
  EXPECT_EQ(readings_of(200), readings_of(2));
}

// What follows a start is the jobs of all these batches.
TEST(RecoveryTest, PayloadsInsideTheFirstRowAreNotReadAgain) {
  FilledStore filled([](Store& store) {
    store.put(accept_batch(1, 3), Urgency::kAwaited);
    store.put(accept_batch(2, 3), Urgency::kAwaited);
    store.put(StepMaker::as_last(StepMaker(2).end_jobs({0, 3})), Urgency::kWithNext);
  });
  const auto store = filled.open();
  std::vector<std::string> inside;
  EXPECT_TRUE(
      store->recover([&](StoredBatch&& batch) { inside.push_back(std::move(batch.payloads_inside)); }));
  ASSERT_EQ(inside.size(), 2U);
  EXPECT_EQ(inside[1], "") << "of a batch that is over";
  const auto payloads = store->payloads(1, daemon::Reader::kNoUser, std::move(inside[0]));
  const auto fetched = [&] {
    std::array<std::string_view, 3> views;
    std::string scratch;
    EXPECT_EQ(payloads->fetch(0, views, scratch), views.size());
    return std::vector<std::string>(views.begin(), views.end());
  };
  const std::uint64_t before = filled.readings();
  const std::vector<std::string> kept = fetched();
  EXPECT_EQ(filled.readings(), before);
  EXPECT_NE(payloads->memory_bytes(), 0U) << "they are charged";
  payloads->drop_cached();
  EXPECT_EQ(payloads->memory_bytes(), 0U);
  EXPECT_EQ(fetched(), kept) << "read";
}

// The thread of all clients loads, and each look would cost it the whole patience.
TEST(LoadTest, ADatabaseThatDoesNotReplyIsNotAskedAgainForASecondNorWhileItIsKnownToBeAway) {
  FilledStore filled([](Store& store) {
    store.put(accept_batch(1, 3), Urgency::kAwaited);
    store.put(StepMaker::as_last(StepMaker(1).end_jobs({0, 3})), Urgency::kWithNext);
  });
  const auto store = filled.open();
  EXPECT_TRUE(store->recover([](const StoredBatch&) {}));
  EXPECT_TRUE(store->load(1).has_value());
  filled.disk().has_no_reply = true;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(store->load(1));
  EXPECT_EQ(filled.disk().without_reply, 1U) << "the first row that does not come is the last";
  int loads = 1;
  for (; loads < 100; ++loads) EXPECT_FALSE(store->load(1));
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - began);
  EXPECT_LE(filled.disk().without_reply, 1U + static_cast<std::uint64_t>(seconds.count()));
  filled.disk().has_no_reply = false;
  ASSERT_TRUE(testing::wait_until_true([&] { return store->load(1).has_value(); }));
}

}  // namespace
}  // namespace locksley::daemon
