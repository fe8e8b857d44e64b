// What a start reads.

#include <gtest/gtest.h>

#include "daemon/store/store.h"
#include "tests/support/memory_engine.h"
#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::StepMaker;

// A reading takes a round trip where the engine is on another machine.
TEST(RecoveryTest, AStartReadsManyUnfinishedBatchesAsOftenAsFew) {
  const auto readings_of = [](std::uint64_t count) {
    const testing::TemporaryFolder folder;
    testing::MemoryDisk disk(folder.path());
    const Store::Options options{.path = folder.path().string(), .engine = disk.engine()};
    {
      testing::Outcomes outcomes;
      const auto store = Store::open(options, testing::silent_log());
      EXPECT_TRUE((*store)->recover([](const StoredBatch&) {}));
      (*store)->start(outcomes.listener());
      for (std::uint64_t batch = 1; batch <= count; ++batch) {
        (*store)->put(accept_batch(batch, 3), Urgency::kAwaited);
        (*store)->put(StepMaker(batch).end_jobs({0, 1}), Urgency::kWithNext);
      }
      (*store)->stop();
    }
    const auto store = Store::open(options, testing::silent_log());
    const std::uint64_t before = disk.readings;
    std::uint64_t found = 0;
    EXPECT_TRUE((*store)->recover([&](const StoredBatch& batch) {
      EXPECT_EQ(batch.left, (std::vector<IndexRange>{{1, 3}}));
      ++found;
    }));
    EXPECT_EQ(found, count);
    return disk.readings - before;
  };
  EXPECT_EQ(readings_of(200), readings_of(2));
}

}  // namespace
}  // namespace locksley::daemon
