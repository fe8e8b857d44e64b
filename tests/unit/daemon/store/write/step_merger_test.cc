// Steps of more bytes than the writer itself merges: a thread merges them, while the writer writes
// on.
#include "daemon/store/write/step_merger.h"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"
#include "daemon/store/rows/rows.h"
#include "daemon/store/rows/step_replay.h"
#include "daemon/store/write/step_compactor.h"
#include "daemon/store/write/write_group.h"
#include "tests/support/memory_engine.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::StepMaker;

constexpr std::uint64_t kStream = 7;
constexpr std::uint64_t kDueAfter = 20;
constexpr std::uint64_t kRanges = 100;  // of each step

// The test's thread is the writer's. The writer itself merges nothing.
class StepMergerTest : public ::testing::Test {
 protected:
  // One group.
  template <class... Write>
  void write(Write&&... write) LOCKSLEY_REQUIRES(kStoreWriter) {
    std::vector<StoreWrite> writes;
    (writes.emplace_back(std::forward<Write>(write)), ...);
    WriteGroup group(*engine, compactor, 1000);
    group.add(writes);
    ASSERT_TRUE(group.finish(Engine::Sync::kSynced).has_value());
  }
  // Every second of the next jobs ends.
  RecordStep next() {
    std::vector<IndexRange> ranges;
    for (std::uint64_t i = 0; i < kRanges; ++i, jobs += 2) ranges.push_back({jobs, jobs + 1});
    return steps->end_jobs(std::move(ranges), testing::ended(kRanges, 0), {});
  }
  // The rows that there are, which must not contradict one another.
  StepReplay replay() {
    StepReplay replay;
    rows = 0;
    const EngineReading reading(*engine);
    EXPECT_TRUE(reading.visit_prefix(Table::kIndex, row_key(kStepKey, kStream),
                                     [&](std::string_view key, std::string_view value) {
                                       ++rows;
                                       auto step = decode_step(value);
                                       EXPECT_TRUE(step && replay.apply(last_number(key), *std::move(step)));
                                       return true;
                                     }));
    return replay;
  }
  // Writes groups until the rows of the batch's first steps have become one. Each has one step, so
  // that there are no more steps than those that come meanwhile.
  void await_merged() LOCKSLEY_REQUIRES(kStoreWriter) {
    const std::uint64_t readings = disk.readings;
    for (int i = 0; i < 100'000; ++i) {
      write(next());
      const StepReplay now = replay();
      if (rows < now.steps()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "nothing was merged, after " << disk.readings - readings << " readings";
  }
  // All that has ended is in the rows.
  void expect_all(std::uint64_t ended) {
    const StepReplay all = replay();
    const auto found = all.ended(jobs);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(count_of(*found), ended);
    EXPECT_EQ(all.last().totals.total(), ended);
    EXPECT_TRUE(all.merged().has_value());
  }

  const testing::TemporaryFolder folder;
  testing::MemoryDisk disk{folder.path()};
  const std::unique_ptr<Engine> engine =
      *disk.engine()({folder.path().string(), config::Durability::kFsync, testing::silent_log()});
  StepCompactor compactor{*engine, kDueAfter, /*bytes_at_once=*/0};
  std::optional<StepMaker> steps{kStream};
  std::uint64_t jobs = 0;
  std::uint64_t rows = 0;  // of replay()
};

TEST_F(StepMergerTest, ItsRowComesInPlaceOfTheStepsAndThoseThatCameMeanwhileStay) {
  const ThreadRoleScope role(kStoreWriter);
  for (std::uint64_t i = 0; i < 3; ++i) {
    await_merged();
    expect_all(jobs / 2);
  }
  // A step that ends the batch deletes all of them.
  write(steps->end_batch());
  replay();
  EXPECT_EQ(rows, 0u);
}

// A large row is written again once there are as many bytes of new steps.
TEST_F(StepMergerTest, ALargeRowIsWrittenSeldom) {
  const ThreadRoleScope role(kStoreWriter);
  constexpr std::uint64_t kSteps = 2'000;
  std::uint64_t written = 0;
  std::uint64_t before = 0;
  std::size_t of_steps = 0;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    RecordStep step = next();
    of_steps += encode(step.step).size();
    write(std::move(step));
    const EngineReading reading(*engine);
    const Key low = row_key(kStepKey, kStream);
    const Key high = row_key(kStepKey, kStream + 1);
    const auto first = reading.first_row({Table::kIndex, low, high});
    ASSERT_TRUE(first && *first);
    const std::uint64_t number = last_number((*first)->key);
    if (number != before) written += (*first)->value.size();
    before = number;
  }
  EXPECT_LE(written, 3 * of_steps);
  expect_all(jobs / 2);
}

TEST_F(StepMergerTest, OfABatchThatIsDeletedOrBeginsAnewNothingIsWrittenLater) {
  const ThreadRoleScope role(kStoreWriter);
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t i = 0; i < kDueAfter + 1; ++i) write(next());
    if (round % 2 == 0) {
      write(ForgetBatch{.sequence = kStream});
      steps.emplace(kStream);
      jobs = 0;
    } else {
      write(steps->end_batch());
      write(steps->requeue({{0, 1}}, {}, std::vector<IndexRange>{{1, 2}}));
    }
    const std::uint64_t left = round % 2 == 0 ? 0 : 1;
    for (int i = 0; i < 20; ++i) {
      write(ForgetBatch{.sequence = kStream + 1});
      replay();
      ASSERT_EQ(rows, left);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (left == 0) continue;
    write(ForgetBatch{.sequence = kStream});
    steps.emplace(kStream);
    jobs = 0;
  }
}

}  // namespace
}  // namespace locksley::daemon
