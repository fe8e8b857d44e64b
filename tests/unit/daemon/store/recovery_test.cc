// What a start reads.

#include <gtest/gtest.h>

#include <array>
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

}  // namespace
}  // namespace locksley::daemon
