// What a disk that fails, or is full, refuses, keeps and takes.
// Length: one class: what it refuses, keeps and corrects.
#include "daemon/store/write/write_backlog.h"

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/write/step_compactor.h"
#include "tests/support/memory_engine.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;
using testing::accept_batch;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::StepMaker;

// A backlog of an engine in memory; the test's thread is the writer's.
class WriteBacklogTest : public ::testing::Test {
 protected:
  using Writes = WriteBacklog::Writes;

  template <class... Write>
  static Writes writes_of(Write&&... write) {
    Writes writes;
    (writes.push_back(std::forward<Write>(write)), ...);
    return writes;
  }
  static ChangeBatch discard(std::uint64_t sequence) {
    return {.sequence = sequence, .changes = {}, .freed_rows = {0, 1}};
  }
  static std::vector<std::uint64_t> batches_of(const Writes& writes) {
    std::vector<std::uint64_t> sequences;
    for (const StoreWrite& each : writes) sequences.push_back(sequence_of(each));
    return sequences;
  }
  static AddJobs add(std::uint64_t sequence, Ticket settled) {
    AddJobs jobs = testing::add_jobs(sequence, 10, {"job"});
    jobs.settled = settled;
    return jobs;
  }
  // Whether the next group, of this write alone, is refused on a disk that has so much room.
  template <class Write>
  bool is_refused(Write&& write, std::uint64_t room) LOCKSLEY_REQUIRES(kStoreWriter) {
    disk.room = room;
    Writes writes = writes_of(std::forward<Write>(write));
    const bool refused = backlog.refuse_without_room(writes, ++group).has_jobs;
    EXPECT_FALSE(backlog.is_full());
    EXPECT_EQ(writes.size(), refused ? 0U : 1U);
    return refused;
  }
  // A group that has no room, and was kept.
  void fill(Writes writes) LOCKSLEY_REQUIRES(kStoreWriter) {
    disk.room = 0;
    EXPECT_EQ(backlog.refuse_without_room(writes, ++group).why, "no room");
    EXPECT_TRUE(backlog.is_full());
    EXPECT_EQ(backlog.write_deletions(writes), 0U);
    backlog.keep(std::move(writes));
    backlog.begin_pause();
  }

  const testing::TemporaryFolder folder;
  testing::MemoryDisk disk{folder.path()};
  const std::unique_ptr<Engine> engine =
      *disk.engine()({folder.path().string(), config::Durability::kFsync, testing::silent_log()});
  StepCompactor compactor{*engine, 1000};
  WriteBacklog backlog{*engine, compactor, 1000, testing::silent_log()};
  Ticket group = 0;  // the last one
};

TEST_F(WriteBacklogTest, AGroupThatHasRoomIsLeftAlone) {
  const ThreadRoleScope role(kStoreWriter);
  Writes writes = writes_of(accept_batch(1, 3));
  const WriteBacklog::Refusal refusal = backlog.refuse_without_room(writes, ++group);
  EXPECT_EQ(refusal.why, "");
  EXPECT_FALSE(refusal.has_jobs);
  EXPECT_FALSE(backlog.is_full());
  EXPECT_THAT(batches_of(writes), ElementsAre(1));
}

TEST_F(WriteBacklogTest, JobsThatAreTooLargeForTheDiskAreRefusedAndTheRestMayBeWritten) {
  const ThreadRoleScope role(kStoreWriter);
  disk.room = 0;
  Writes writes = writes_of(accept_batch(1, 3), discard(2));
  const WriteBacklog::Refusal refusal = backlog.refuse_without_room(writes, ++group);
  EXPECT_EQ(refusal.why, "no room");
  EXPECT_TRUE(refusal.has_jobs);
  EXPECT_FALSE(backlog.is_full());
  EXPECT_THAT(batches_of(writes), ElementsAre(2));
}

// A crash before the refusal is undone would leave a batch that counts jobs which have no payloads.
class ChangesAfterRefusedJobsTest : public WriteBacklogTest {
 protected:
  // An ADD of the job 10, and then a CLOSE.
  static Writes add_and_close(bool is_cancelled = false) {
    return writes_of(add(1, 0), close_of(is_cancelled));
  }
  static ChangeBatch close_of(bool is_cancelled = false) {
    ChangeBatch close{.sequence = 1, .changes = {}, .freed_rows = {0, 0}};
    close.changes.jobs = 11;
    close.changes.payload_bytes = 100;
    close.changes.is_closed = true;
    close.changes.is_cancelled = is_cancelled;
    close.changes.weight = 5;
    return close;
  }
  static void expect_changes_without_the_job(const Writes& writes) {
    ASSERT_THAT(batches_of(writes), ElementsAre(1));
    const auto& changes = std::get<ChangeBatch>(writes.front()).changes;
    EXPECT_EQ(changes.jobs, 10U);
    EXPECT_EQ(changes.payload_bytes, 97U) << "without those of the payload `job`";
    EXPECT_FALSE(changes.is_closed) << "so that the job can be added again";
    EXPECT_EQ(changes.weight, 5U);
  }
};

TEST_F(ChangesAfterRefusedJobsTest, DoNotCountThemOnADiskWithoutRoom) {
  const ThreadRoleScope role(kStoreWriter);
  disk.room = 0;
  Writes writes = add_and_close();
  EXPECT_TRUE(backlog.refuse_without_room(writes, ++group).has_jobs);
  expect_changes_without_the_job(writes);
}

TEST_F(ChangesAfterRefusedJobsTest, DoNotCountThemWhenTheyAreKept) {
  const ThreadRoleScope role(kStoreWriter);
  backlog.keep(add_and_close());
  std::size_t dropped = 0;
  const auto written = backlog.write_kept(dropped);
  ASSERT_TRUE(written.has_value());
  expect_changes_without_the_job(*written);
}

// Put before the refusal was known.
TEST_F(ChangesAfterRefusedJobsTest, DoNotCountThemInALaterGroup) {
  const ThreadRoleScope role(kStoreWriter);
  EXPECT_TRUE(is_refused(add(1, 0), 0));
  disk.room = 1000;
  Writes writes = writes_of(close_of());
  EXPECT_EQ(backlog.refuse_without_room(writes, ++group).why, "");
  expect_changes_without_the_job(writes);
}

TEST_F(ChangesAfterRefusedJobsTest, DoNotCountThemInALaterGroupThatIsKept) {
  const ThreadRoleScope role(kStoreWriter);
  Writes failed = writes_of(add(1, 0));
  backlog.note_refused(failed, ++group);
  Writes late = writes_of(close_of());
  backlog.note_refused(late, ++group);
  backlog.keep(std::move(late));
  std::size_t dropped = 0;
  const auto written = backlog.write_kept(dropped);
  ASSERT_TRUE(written.has_value());
  expect_changes_without_the_job(*written);
}

TEST_F(ChangesAfterRefusedJobsTest, CountJobsThatWereAddedAgain) {
  const ThreadRoleScope role(kStoreWriter);
  EXPECT_TRUE(is_refused(add(1, 0), 0));
  disk.room = 1000;
  Writes writes = writes_of(add(1, group), close_of());
  EXPECT_EQ(backlog.refuse_without_room(writes, ++group).why, "");
  const auto& changes = std::get<ChangeBatch>(writes.back()).changes;
  EXPECT_EQ(changes.jobs, 11U);
  EXPECT_TRUE(changes.is_closed);
}

TEST_F(ChangesAfterRefusedJobsTest, LeaveACancelledBatchClosed) {
  const ThreadRoleScope role(kStoreWriter);
  disk.room = 0;
  Writes writes = add_and_close(true);
  EXPECT_TRUE(backlog.refuse_without_room(writes, ++group).has_jobs);
  EXPECT_TRUE(std::get<ChangeBatch>(writes.front()).changes.is_closed);
}

// Put before the refusal of those before them was known: their indexes are too high by as many.
TEST_F(WriteBacklogTest, JobsThatFollowRefusedOnesAreRefusedThoughThereIsRoom) {
  const ThreadRoleScope role(kStoreWriter);
  constexpr std::uint64_t kRoom = 1000;
  EXPECT_FALSE(is_refused(add(1, 0), kRoom));
  EXPECT_TRUE(is_refused(add(1, 0), 0));
  EXPECT_TRUE(is_refused(add(1, 1), kRoom)) << "the second group's outcome was not known";
  EXPECT_TRUE(is_refused(add(1, 2), kRoom)) << "nor that of the third";
  EXPECT_FALSE(is_refused(add(2, 3), kRoom)) << "of another batch";
  EXPECT_FALSE(is_refused(add(1, 4), kRoom)) << "all were known";
  EXPECT_TRUE(is_refused(add(4, 6), 0));
  EXPECT_TRUE(is_refused(add(5, 6), 0));
  EXPECT_TRUE(is_refused(add(4, 6), kRoom)) << "of the first of two groups that were refused";
  Writes failed = writes_of(add(6, 9));
  backlog.note_refused(failed, ++group);
  EXPECT_TRUE(is_refused(add(6, 9), kRoom)) << "the disk has failed";
  EXPECT_TRUE(is_refused(accept_batch(3, 1), 0));
  EXPECT_TRUE(is_refused(add(3, 11), kRoom)) << "of a batch that was refused";
  EXPECT_TRUE(is_refused(add(7, 0), 0));
  EXPECT_FALSE(is_refused(add(8, group), kRoom)) << "it was put after the refusal was known";
  EXPECT_TRUE(is_refused(add(7, 0), kRoom)) << "it was staged before";
}

// It would count the refused batch as one that was over, if the daemon crashed before it has
// cancelled it.
TEST_F(WriteBacklogTest, ABatchThatIsToStartAfterARefusedOneNeedsItOk) {
  const ThreadRoleScope role(kStoreWriter);
  EXPECT_TRUE(is_refused(accept_batch(1, 3), 0));
  EXPECT_TRUE(is_refused(add(2, 0), 0)) << "a batch that is there, though its job is not";
  disk.room = 1000;
  const auto put = [&](Ticket settled) {
    kStoreWriter.assert_held();
    AcceptBatch accept = accept_batch(3, 1);
    accept.settled = settled;
    accept.row.after = {{1, "refused", false}, {2, "open", false}};
    Writes writes = writes_of(std::move(accept));
    EXPECT_EQ(backlog.refuse_without_room(writes, ++group).why, "");
    const auto& after = std::get<AcceptBatch>(writes.front()).row.after;
    EXPECT_FALSE(after[1].only_if_ok);
    return after[0].only_if_ok;
  };
  EXPECT_TRUE(put(0));
  EXPECT_FALSE(put(group)) << "the refusal was known";
}

TEST_F(WriteBacklogTest, WhatBringsJobsIsNotKept) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker steps(2);
  backlog.keep(writes_of(accept_batch(1, 3), steps.end_jobs({0, 1}), StoreWrite()));
  EXPECT_EQ(backlog.size(), 1U);
  std::size_t dropped = 0;
  const auto written = backlog.write_kept(dropped);
  ASSERT_TRUE(written.has_value());
  EXPECT_THAT(batches_of(*written), ElementsAre(2));
  EXPECT_TRUE(backlog.empty());
  EXPECT_EQ(dropped, 0U);
  EXPECT_GT(disk.syncs(), 0U);
}

TEST_F(WriteBacklogTest, AttemptsOnAFailingDiskBecomeRarer) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker steps(1);
  backlog.keep(writes_of(steps.end_jobs({0, 1})));
  EXPECT_EQ(backlog.pause(), 1s);
  disk.fail_syncs();
  std::vector<Nanoseconds> pauses;
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::size_t dropped = 0;
    const Nanoseconds before = steady_now();
    ASSERT_FALSE(backlog.write_kept(dropped).has_value());
    pauses.push_back(backlog.pause());
    EXPECT_GE(backlog.next_attempt(), before + backlog.pause());
  }
  EXPECT_THAT(pauses, ElementsAre(2s, 4s, 5s, 5s));
  EXPECT_EQ(backlog.size(), 1U);
  disk.heal();
  std::size_t dropped = 0;
  EXPECT_TRUE(backlog.write_kept(dropped).has_value());
  EXPECT_EQ(backlog.pause(), 1s) << "the next failure begins anew";
}

TEST_F(WriteBacklogTest, OnAFullDiskDeletionsDropWhatWasKeptOfTheirBatchesAndAreReclaimedSoon) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker one(1), two(2);
  RecordStep kept = one.end_jobs({0, 3});
  const std::size_t weight = weight_of(kept);
  fill(writes_of(std::move(kept), two.end_jobs({0, 3})));
  EXPECT_EQ(backlog.size(), 2U);
  Writes writes = writes_of(ForgetBatch{1}, accept_batch(9, 1));
  EXPECT_EQ(backlog.write_deletions(writes), weight);
  EXPECT_THAT(batches_of(writes), ElementsAre(9)) << "the deletion is written";
  EXPECT_EQ(backlog.size(), 1U);
  EXPECT_LT(backlog.next_attempt(), steady_now() + 900ms);

  // There is still no room. All that was deleted before is reclaimed once.
  std::size_t dropped = 0;
  disk.room = 1;
  EXPECT_FALSE(backlog.write_kept(dropped).has_value());
  EXPECT_THAT(disk.reclaimed, ElementsAre(std::pair(0ULL, ~0ULL - 1)));
  writes = writes_of(ForgetBatch{5}, ForgetBatch{7});
  EXPECT_EQ(backlog.write_deletions(writes), 0U) << "nothing of them was kept";
  disk.room = 1000;
  disk.reclaimed.clear();
  const auto written = backlog.write_kept(dropped);
  ASSERT_TRUE(written.has_value());
  EXPECT_THAT(batches_of(*written), ElementsAre(2));
  EXPECT_THAT(disk.reclaimed, ElementsAre(std::pair(5, 7)));
  EXPECT_FALSE(backlog.is_full());
}

// The changes are kept, and the daemon may end before they are written.
class ToldOnAFullDiskTest : public WriteBacklogTest {
 protected:
  static ChangeBatch told(std::uint64_t sequence) {
    ChangeBatch change{.sequence = sequence, .changes = {}};
    change.changes.is_released = true;
    return change;
  }
  // Without which the rest would have room.
  static RecordStep results() { return StepMaker(9).end_jobs({0, 1}); }
  // Its row of changes; none: there is none.
  std::optional<ChangesRow> stored(std::uint64_t sequence) {
    const EngineReading reading(*engine);
    std::string bytes;
    if (!reading.get(Table::kIndex, row_key(kChangesKey, sequence), bytes).value()) return std::nullopt;
    return decode_changes(bytes);
  }
};

TEST_F(ToldOnAFullDiskTest, ADeletionBringsWhatOthersWereToldOfTheEnd) {
  const ThreadRoleScope role(kStoreWriter);
  ChangeBatch other{.sequence = 3, .changes = {}};
  other.changes.is_paused = true;
  fill(writes_of(results(), told(2), other));
  Writes writes = writes_of(ForgetBatch{1}, told(4), told(5), ForgetBatch{5});
  backlog.write_deletions(writes);
  EXPECT_TRUE(stored(2).value_or(ChangesRow()).is_released);
  EXPECT_TRUE(stored(4).value_or(ChangesRow()).is_released);
  EXPECT_FALSE(stored(3).has_value()) << "it has no outcome of another";
  EXPECT_FALSE(stored(5).has_value()) << "it is deleted itself";
  EXPECT_EQ(backlog.size(), 3U) << "they are kept as well";
  EXPECT_THAT(batches_of(writes), ElementsAre(4));
}

TEST_F(ToldOnAFullDiskTest, ItIsWrittenOnceUntilThereIsMore) {
  const ThreadRoleScope role(kStoreWriter);
  fill(writes_of(results(), told(2)));
  const auto forget = [&](std::uint64_t sequence) {
    kStoreWriter.assert_held();
    const auto rows = engine->new_group();
    rows->erase(Table::kIndex, row_key(kChangesKey, 2));
    EXPECT_TRUE(engine->commit(*rows, Engine::Sync::kSynced).has_value());
    Writes writes = writes_of(ForgetBatch{sequence});
    backlog.write_deletions(writes);
    return stored(2).has_value();
  };
  EXPECT_TRUE(forget(1));
  EXPECT_FALSE(forget(6));
  backlog.keep(writes_of(told(2)));
  EXPECT_TRUE(forget(7));
}

TEST_F(ToldOnAFullDiskTest, ItHasNeitherRefusedJobsNorDiscardsOfResultsThatAreKept) {
  const ThreadRoleScope role(kStoreWriter);
  ChangeBatch change = told(2);
  change.changes.jobs = 11;
  change.changes.payload_bytes = 100;
  change.changes.discarded_rows = 7;
  change.changes.discarded_bytes = 70;
  const auto rows = engine->new_group();
  ChangesRow before;
  before.discarded_rows = 3;
  before.discarded_bytes = 30;
  rows->put(Table::kIndex, row_key(kChangesKey, 2), encode(before));
  ASSERT_TRUE(engine->commit(*rows, Engine::Sync::kSynced).has_value());
  fill(writes_of(results(), add(2, 0), change));
  Writes writes = writes_of(ForgetBatch{1});
  backlog.write_deletions(writes);
  const ChangesRow row = stored(2).value();
  EXPECT_TRUE(row.is_released);
  EXPECT_EQ(row.jobs, 10U);
  EXPECT_EQ(row.payload_bytes, 97U);
  EXPECT_EQ(row.discarded_rows, 3U);
  EXPECT_EQ(row.discarded_bytes, 30U);
}

// A job that was refused would be back after a crash, without its payload.
TEST_F(ToldOnAFullDiskTest, ADiscardThatWasPutBeforeARefusalWasKnownDoesNotCountTheRefusedJobs) {
  const ThreadRoleScope role(kStoreWriter);
  fill(writes_of(results(), add(2, 0)));
  ChangeBatch late = discard(2);
  late.changes.jobs = 11;
  late.changes.payload_bytes = 100;
  Writes writes = writes_of(late);
  backlog.note_refused(writes, ++group);
  backlog.write_deletions(writes);
  EXPECT_THAT(writes, IsEmpty());
  EXPECT_EQ(stored(2).value().jobs, 10U);
  EXPECT_EQ(stored(2).value().payload_bytes, 97U);
}

// Nor are the steps of its jobs: nothing would delete them.
TEST_F(WriteBacklogTest, TheDeletionOfABatchThatWasNeverWrittenIsNotWritten) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker steps(1), refused(8);
  fill(writes_of(accept_batch(8, 2), steps.end_jobs({0, 1}), refused.end_jobs({0, 1})));
  const std::uint64_t syncs = disk.syncs();
  Writes writes = writes_of(refused.end_jobs({1, 2}), ForgetBatch{8});
  EXPECT_GE(backlog.write_deletions(writes), 2 * kCostOfWrite) << "what two steps weigh";
  EXPECT_THAT(writes, IsEmpty());
  EXPECT_EQ(backlog.size(), 1U) << "the step of the other batch";
  EXPECT_EQ(disk.syncs(), syncs);
}

TEST_F(WriteBacklogTest, OnAFullDiskDiscardsOfABatchAreWrittenUnlessMoreOfItWaits) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker steps(1), other(3);
  fill(writes_of(steps.end_jobs({0, 1})));
  Writes writes = writes_of(discard(1), discard(2), discard(3), other.end_jobs({0, 1}));
  backlog.write_deletions(writes);
  EXPECT_THAT(batches_of(writes), ElementsAre(1, 3, 3));
}

TEST_F(WriteBacklogTest, ADeletionThatIsKeptIsWrittenAloneIfThereIsNoRoomForTheRest) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker steps(1);
  fill(writes_of(steps.end_jobs({0, 1})));
  EXPECT_FALSE(backlog.keeps_deletions());
  backlog.keep(writes_of(ForgetBatch{7}));
  EXPECT_TRUE(backlog.keeps_deletions());
  std::size_t dropped = 0;
  EXPECT_FALSE(backlog.write_kept(dropped).has_value());
  EXPECT_FALSE(backlog.keeps_deletions());
  EXPECT_EQ(backlog.size(), 1U);
}

TEST_F(WriteBacklogTest, ADeletionThatFailsIsNotOnlyAFullDisk) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker steps(1);
  fill(writes_of(steps.end_jobs({0, 1})));
  disk.fail_next_sync();
  Writes writes = writes_of(ForgetBatch{1});
  EXPECT_EQ(backlog.write_deletions(writes), 0U);
  EXPECT_FALSE(backlog.is_full()) << "the next attempt reopens the engine";
  EXPECT_THAT(batches_of(writes), ElementsAre(1));
  EXPECT_EQ(backlog.size(), 1U);
}

TEST_F(WriteBacklogTest, TheLastWritesUseTheReserve) {
  const ThreadRoleScope role(kStoreWriter);
  StepMaker steps(1);
  fill(writes_of(steps.end_jobs({0, 1})));
  backlog.write_with_reserve();
  EXPECT_FALSE(backlog.empty()) << "there is none";
  disk.reserve = 1000;
  backlog.write_with_reserve();
  EXPECT_TRUE(backlog.empty());
}

}  // namespace
}  // namespace locksley::daemon
