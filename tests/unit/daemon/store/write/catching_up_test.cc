// What the disk did not take is written in parts.
#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/sync/mutex.h"
#include "daemon/store/engine/key.h"
#include "daemon/store/rows/rows.h"
#include "daemon/store/write/group_commit.h"
#include "daemon/store/write/step_compactor.h"
#include "daemon/store/write/write_backlog.h"
#include "tests/support/memory_engine.h"
#include "tests/support/store_fixture.h"
#include "tests/support/threads.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StepMaker;
using testing::wait_until_true;

// An engine in memory, for whose groups two small writes are enough.
class CatchingUpTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> open() {
    disk.group_bytes = 5 * kCostOfWrite / 2;
    return *disk.engine()({folder.path().string(), config::Durability::kFsync, testing::silent_log()});
  }

  const testing::TemporaryFolder folder;
  testing::MemoryDisk disk{folder.path()};
  const std::unique_ptr<Engine> engine = open();
};

// The test's thread is the writer's.
class PartsTest : public CatchingUpTest {
 protected:
  using Writes = WriteBacklog::Writes;

  template <class... Write>
  void keep(Write&&... write) LOCKSLEY_REQUIRES(kStoreWriter) {
    Writes writes;
    (writes.push_back(std::forward<Write>(write)), ...);
    backlog.keep(std::move(writes));
  }
  // What the next part has: "s7" is a step of batch 7, "c7" a change, and "d7" its deletion. Empty:
  // it cannot be written.
  std::vector<std::string> write_part() LOCKSLEY_REQUIRES(kStoreWriter) {
    std::size_t dropped = 0;
    const auto written = backlog.write_kept(dropped);
    std::vector<std::string> texts;
    if (!written) return texts;
    for (const StoreWrite& each : *written) {
      if (std::holds_alternative<std::monostate>(each)) continue;
      const char kind = is_deletion(each) ? 'd' : std::holds_alternative<ChangeBatch>(each) ? 'c' : 's';
      texts.push_back(kind + std::to_string(sequence_of(each)));
    }
    return texts;
  }
  static ChangeBatch weigh(std::uint64_t sequence, std::uint32_t weight) {
    ChangeBatch change{.sequence = sequence, .changes = {}};
    change.changes.weight = weight;
    return change;
  }
  // That a batch for which it has waited is over.
  static ChangeBatch release(std::uint64_t sequence, std::uint32_t weight) {
    ChangeBatch change = weigh(sequence, weight);
    change.changes.is_released = true;
    return change;
  }
  bool is_stored(std::uint64_t sequence) const {
    const EngineReading reading(*engine);
    std::string row;
    return reading.get(Table::kIndex, row_key(kChangesKey, sequence), row).value();
  }

  StepCompactor compactor{*engine, 1000};
  WriteBacklog backlog{*engine, compactor, 1000, testing::silent_log()};
};

TEST_F(PartsTest, ComeInTheirOrderAndAPartThatIsWrittenIsNotWrittenAgain) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker one(1), two(2);
  keep(one.end_jobs({0, 1}), two.end_jobs({0, 1}), one.end_jobs({1, 2}), ForgetBatch{2},
       one.end_jobs({2, 3}));
  EXPECT_THAT(write_part(), ElementsAre("s1", "s2"));
  EXPECT_TRUE(backlog.keeps_deletions());
  disk.fail_next_sync();
  EXPECT_THAT(write_part(), IsEmpty());
  EXPECT_EQ(backlog.size(), 3U);
  EXPECT_THAT(write_part(), ElementsAre("s1", "d2"));
  EXPECT_FALSE(backlog.keeps_deletions());
  EXPECT_THAT(write_part(), ElementsAre("s1"));
  EXPECT_TRUE(backlog.empty());
}

TEST_F(PartsTest, AWriteThatIsTooLargeIsOneByItself) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker steps(1);
  RecordStep large = steps.end_jobs({0, 1});
  large.step.rows.size_bytes = 10 * kCostOfWrite;
  keep(weigh(2, 1), std::move(large), weigh(3, 1));
  EXPECT_THAT(write_part(), ElementsAre("c2"));
  EXPECT_THAT(write_part(), ElementsAre("s1"));
  EXPECT_THAT(write_part(), ElementsAre("c3"));
}

// A crash between two parts must not leave steps without a change that came before them.
TEST_F(PartsTest, AChangeBeforeAStepOfItsBatchStaysBeforeIt) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker one(1), two(2);
  keep(weigh(1, 1), weigh(1, 2), two.end_jobs({0, 1}), one.end_jobs({0, 1}), weigh(1, 3), weigh(1, 4));
  EXPECT_EQ(backlog.size(), 4U);
  EXPECT_THAT(write_part(), ElementsAre("c1", "s2"));
  EXPECT_THAT(write_part(), ElementsAre("s1", "c1"));
}

// Once batch 1 is deleted, nothing but the change of batch 2 has its outcome; and that change has
// the place of the one which replaced it.
TEST_F(PartsTest, ABatchIsNotDeletedBeforeItsOutcomeIsStored) {
  const ThreadRoleScope role(kStoreWriter);
  keep(release(2, 1), ForgetBatch{1}, weigh(4, 1), weigh(5, 1), release(2, 2));
  std::size_t dropped = 0;
  ASSERT_TRUE(backlog.write_kept(dropped).has_value());
  EXPECT_TRUE(is_stored(2));
  EXPECT_FALSE(is_stored(5)) << "other changes wait for their part";
  EXPECT_THAT(write_part(), ElementsAre("c5", "c2"));
}

TEST_F(PartsTest, WhatAPartDiscardsStaysDiscardedThoughALaterChangeIsTold) {
  const ThreadRoleScope role(kStoreWriter);
  disk.group_bytes = 9 * kCostOfWrite / 2;
  StepMaker two(2);
  ChangeBatch discard = weigh(2, 1);
  discard.changes.discarded_rows = 10;
  ChangeBatch last = release(2, 2);
  last.changes.discarded_rows = 20;
  keep(std::move(discard), two.end_jobs({20, 21}), ForgetBatch{1}, weigh(4, 1), weigh(5, 1), weigh(6, 1),
       std::move(last));
  std::size_t dropped = 0;
  ASSERT_TRUE(backlog.write_kept(dropped).has_value());
  const EngineReading reading(*engine);
  std::string row;
  ASSERT_TRUE(reading.get(Table::kIndex, row_key(kChangesKey, 2), row).value());
  const auto changes = decode_changes(row);
  ASSERT_TRUE(changes.has_value());
  EXPECT_TRUE(changes->is_released);
  EXPECT_EQ(changes->discarded_rows, 10U);
}

TEST_F(CatchingUpTest, NewBatchesAreRefusedUntilTheBacklogIsWrittenAndResultsWaitForIt) {
  std::vector<Outcome> outcomes;
  Mutex mutex;
  const auto outcome_of = [&](Ticket ticket) {
    std::optional<Outcome> found;
    EXPECT_TRUE(wait_until_true([&] {
      const MutexLock lock(mutex);
      for (const Outcome& each : outcomes) {
        if (each.up_to >= ticket && !found) found = each;
      }
      return found.has_value();
    }));
    return found.value_or(Outcome{}).error;
  };
  GroupCommit commit(*engine, config::Durability::kFsync, testing::silent_log());
  commit.start([&](const Outcome& outcome) {
    const MutexLock lock(mutex);
    outcomes.push_back(outcome);
  });
  EXPECT_EQ(outcome_of(commit.put(accept_batch(1, 100), Urgency::kAwaited)), "");
  disk.fail_syncs();
  StepMaker steps(1);
  for (std::uint64_t job = 0; job < 4; ++job) {
    RecordStep step = steps.end_jobs({job, job + 1});
    step.step.rows.size_bytes = GroupCommit::kMostPending / 2;
    commit.put(std::move(step), Urgency::kWithNext);
  }
  ASSERT_TRUE(wait_until_true([&] { return !commit.error().empty(); }));
  EXPECT_TRUE(commit.has_room_now()) << "while it fails";
  disk.hold_syncs();
  disk.heal();
  ASSERT_TRUE(disk.await_held());
  disk.release_one();
  ASSERT_TRUE(disk.await_held()) << "the second part";
  EXPECT_THAT(commit.error(), HasSubstr("earlier writes come first"));
  EXPECT_FALSE(commit.has_room_now()) << "once it works again";
  const Ticket refused = commit.put(accept_batch(2, 1), Urgency::kAwaited);
  disk.release_one();
  ASSERT_TRUE(disk.await_held()) << "the third part";
  EXPECT_THAT(outcome_of(refused), HasSubstr("earlier writes come first"));
  EXPECT_FALSE(commit.error().empty());
  disk.release();
  ASSERT_TRUE(wait_until_true([&] { return commit.error().empty(); }));
  EXPECT_TRUE(commit.has_room_now());
  EXPECT_EQ(outcome_of(commit.put(accept_batch(3, 1), Urgency::kAwaited)), "");
}

TEST_F(CatchingUpTest, TheEndWritesAllParts) {
  GroupCommit commit(*engine, config::Durability::kFsync, testing::silent_log());
  commit.start([](const Outcome&) {});
  commit.put(accept_batch(1, 100), Urgency::kAwaited);
  disk.fail_syncs();
  StepMaker steps(1);
  for (std::uint64_t job = 0; job < 20; ++job) commit.put(steps.end_jobs({job, job + 1}), Urgency::kWithNext);
  ASSERT_TRUE(wait_until_true([&] { return !commit.error().empty(); }));
  disk.heal();
  commit.stop();
  EXPECT_EQ(commit.lost(), 0U);
}

}  // namespace
}  // namespace locksley::daemon
