// Length: all of one class, whose tests share what holds the disk up.
// When writes to the store are written and acknowledged.
#include "daemon/store/write/group_commit.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/store_fixture.h"
#include "tests/support/threads.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::is_same;
using ::testing::IsEmpty;
using testing::StepMaker;
using testing::StoreBench;

// With a writer that waits for writes until they come.
struct PatientBench : StoreBench {
  PatientBench() {
    patience = {.commits = 1'000'000'000, .most = std::chrono::hours(1)};
    open();
  }
  // A group of one write, during whose sync others come: the clients of all of them have a common
  // group from then on.
  void meet(std::size_t clients) {
    disk->hold_syncs();
    const Ticket first = put_some(1);
    ASSERT_TRUE(disk->await_held());
    put_some(clients - 1);
    disk->release();
    EXPECT_EQ(outcomes->await(first).error, "");
  }
  // So many acceptances, with time for the writer to take each of them by itself. The ticket of the
  // last one.
  Ticket put_some(std::size_t count) {
    Ticket ticket = 0;
    for (std::size_t i = 0; i < count; ++i) {
      ticket = put(accept_batch(++accepted, 2));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ticket;
  }
  std::uint64_t accepted = 0;
};

TEST(GroupCommitTest, NobodyHearsBeforeTheSyncIsOver) {
  StoreBench bench;
  bench.open();
  bench.disk->hold_syncs();
  const Ticket ticket = bench.put(accept_batch(1, 3));
  ASSERT_TRUE(bench.disk->await_held());
  EXPECT_THAT(bench.outcomes->all(), IsEmpty());
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(ticket).error, "");
}

TEST(GroupCommitTest, AllThatComesDuringASyncSharesTheNext) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 3));  // with what the opening has left to be synced
  bench.disk->hold_syncs();
  const Ticket first = bench.put(accept_batch(2, 3));
  ASSERT_TRUE(bench.disk->await_held());
  const std::uint64_t syncs = bench.disk->syncs();
  for (std::uint64_t sequence = 3; sequence < 100; ++sequence) {
    EXPECT_EQ(bench.put(accept_batch(sequence, 3)), first + 1);
  }
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(first + 1).error, "");
  EXPECT_EQ(bench.outcomes->all().size(), 3U);
  EXPECT_EQ(bench.disk->syncs(), syncs + 1);
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(GroupCommitTest, ManyClientsThatAreAnsweredTogetherShareTheNextSync) {
  PatientBench bench;
  bench.meet(GroupCommit::kManyClients);
  // The one that was answered first writes again, and the group is whole.
  Ticket last = bench.put_some(1);
  EXPECT_EQ(bench.outcomes->await(last).error, "");
  const std::uint64_t syncs = bench.disk->syncs();
  for (int round = 1; round <= 3; ++round) {
    const Ticket group = last + 1;
    last = bench.put_some(GroupCommit::kManyClients);
    EXPECT_EQ(last, group);
    EXPECT_EQ(bench.outcomes->await(last).error, "");
  }
  EXPECT_EQ(bench.disk->syncs(), syncs + 3);
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(GroupCommitTest, OneWriteOfFewClientsWaitsForNoOther) {
  PatientBench bench;
  bench.meet(GroupCommit::kManyClients - 1);
  EXPECT_EQ(bench.outcomes->await(bench.put_some(1)).error, "");
  EXPECT_EQ(bench.outcomes->await(bench.put_some(1)).error, "");
}

TEST(GroupCommitTest, ClientsThatDoNotWriteAgainAreNotWaitedForLongAndNotTwice) {
  StoreBench bench;
  bench.open();
  bench.disk->hold_syncs();
  bench.put(accept_batch(1, 2));
  ASSERT_TRUE(bench.disk->await_held());
  Ticket last = 0;
  for (std::uint64_t sequence = 2; sequence < 20; ++sequence) last = bench.put(accept_batch(sequence, 2));
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(last).error, "");
  EXPECT_EQ(bench.outcomes->await(bench.put(accept_batch(20, 2))).error, "");
  EXPECT_EQ(bench.outcomes->await(bench.put(accept_batch(21, 2))).error, "");
}

TEST(GroupCommitTest, AfterARefusalNobodyIsWaitedFor) {
  PatientBench bench;
  bench.meet(GroupCommit::kManyClients);
  bench.disk->fail_syncs();
  EXPECT_NE(bench.outcomes->await(bench.put_some(1)).error, "");
  bench.outcomes->await(bench.put_some(1));
}

TEST(GroupCommitTest, StopWaitsForNoClient) {
  PatientBench bench;
  bench.meet(GroupCommit::kManyClients);
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

// With one payload of so many bytes.
AcceptBatch large_batch(std::uint64_t sequence, std::size_t bytes) {
  AcceptBatch accept = accept_batch(sequence, 0);
  accept.row.jobs = 1;
  accept.row.payload_bytes = bytes;
  accept.payloads = testing::payloads_of({std::string(bytes, 'x')});
  return accept;
}

TEST(GroupCommitTest, AFullGroupGetsNoMoreWrites) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 3));
  bench.disk->hold_syncs();
  const Ticket first = bench.put(accept_batch(2, 3));
  ASSERT_TRUE(bench.disk->await_held());
  constexpr std::size_t kHalf = kMostInGroup / 2;
  EXPECT_EQ(bench.put(large_batch(3, kHalf)), first + 1);
  EXPECT_EQ(bench.put(large_batch(4, kHalf)), first + 1) << "it fills the group";
  EXPECT_EQ(bench.put(large_batch(5, 3 * kHalf)), first + 2) << "which is a group of its own";
  EXPECT_EQ(bench.put(accept_batch(6, 1)), first + 3);
  EXPECT_EQ(bench.put(accept_batch(7, 1)), first + 3);
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(first + 3).error, "");
  std::vector<Ticket> outcomes;
  for (const Outcome& each : bench.outcomes->all()) outcomes.push_back(each.up_to);
  EXPECT_THAT(outcomes, ::testing::ElementsAre(first - 1, first, first + 1, first + 2, first + 3));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(GroupCommitTest, VeryManySmallWritesFillAGroup) {
  StoreBench bench;
  bench.open();
  bench.disk->hold_syncs();
  const Ticket first = bench.put(accept_batch(1, 1));
  ASSERT_TRUE(bench.disk->await_held());
  Ticket last = first;
  std::uint64_t sequence = 1;
  while (last < first + 2) last = bench.put(accept_batch(++sequence, 1));
  EXPECT_LE((sequence - 2) * kCostOfWrite, kMostInGroup);
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(last).error, "");
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(GroupCommitTest, StopWritesFullGroupsAndTheLastOne) {
  StoreBench bench;
  bench.open();
  bench.disk->hold_syncs();
  bench.put(accept_batch(1, 1));
  ASSERT_TRUE(bench.disk->await_held());
  for (std::uint64_t sequence = 2; sequence < 5; ++sequence) {
    bench.put(large_batch(sequence, kMostInGroup));
  }
  bench.put(accept_batch(5, 1));
  std::jthread stopping([&bench] { bench.close(); });
  bench.disk->release();
  stopping.join();
  EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
}

TEST(GroupCommitTest, TicketsAscendAndOutcomesComeInTheirOrder) {
  StoreBench bench;
  bench.open();
  constexpr std::uint64_t kEach = 150;
  std::atomic<Ticket> largest{0};
  testing::run_together(4, [&](std::size_t thread) {
    Ticket last = 0;
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const Ticket ticket = bench.store->put(accept_batch(1 + thread * kEach + i, 2), Urgency::kAwaited);
      EXPECT_GE(ticket, last);
      last = ticket;
      if (i % 16 == thread) {
        EXPECT_EQ(bench.outcomes->await(ticket).error, "");
      }
    }
    for (Ticket seen = largest; seen < last && !largest.compare_exchange_weak(seen, last);) {
    }
  });
  EXPECT_EQ(bench.outcomes->await(largest).error, "");
  Ticket before = 0;
  for (const Outcome& outcome : bench.outcomes->all()) {
    EXPECT_GT(outcome.up_to, before);
    before = outcome.up_to;
  }
  EXPECT_EQ(before, largest);
  bench.close();
  EXPECT_EQ(bench.open().size(), 4 * kEach);
}

TEST(GroupCommitTest, StepsAreWrittenThoughNobodyWaits) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  const std::size_t told = bench.outcomes->all().size();
  const std::uint64_t syncs = bench.disk->syncs();
  StepMaker steps(1);
  bench.put(steps.end_jobs({0, 4}));
  EXPECT_TRUE(testing::wait_until_true([&] { return bench.disk->syncs() > syncs; }));
  // A sync is counted when it begins.
  bench.flush();
  EXPECT_EQ(bench.outcomes->all().size(), told + 1);
  bench.disk->cut_power();
  bench.close();
  bench.disk->lose_power();
  EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
}

TEST(GroupCommitTest, WhatNobodyWaitsForIsWrittenAllTheSameAndNobodyIsTold) {
  StoreBench bench;
  bench.open();
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) bench.commit(accept_batch(sequence, 2));
  const std::size_t told = bench.outcomes->all().size();
  const std::uint64_t syncs = bench.disk->syncs();
  bench.put(ForgetBatch{1}, Urgency::kWithNext);
  EXPECT_TRUE(testing::wait_until_true([&] { return bench.disk->syncs() > syncs; }));
  // A sync is counted when it begins.
  bench.flush();
  EXPECT_EQ(bench.outcomes->all().size(), told + 1);
  EXPECT_EQ(bench.outcomes->await(bench.put(ForgetBatch{2}, Urgency::kAwaited)).error, "");
  EXPECT_EQ(bench.outcomes->all().size(), told + 2);
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(GroupCommitTest, WhatIsWrittenCanBeKnownThoughNobodyIsTold) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  StepMaker steps(1);
  bench.disk->hold_syncs();
  const Ticket ticket = bench.put(StepMaker::as_last(steps.end_jobs({0, 10})));
  ASSERT_TRUE(bench.disk->await_held());
  EXPECT_FALSE(bench.store->is_written(ticket));
  bench.disk->release();
  bench.flush();
  EXPECT_TRUE(bench.store->is_written(ticket));
  EXPECT_EQ(bench.store->load(1)->history.totals.total(), 10U);
}

TEST(GroupCommitTest, WhatTheDiskRefusedIsWrittenOnceItIsWrittenAnew) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  StepMaker steps(1);
  bench.disk->fail_syncs();
  const Ticket ticket = bench.put(StepMaker::as_last(steps.end_jobs({0, 10})));
  ASSERT_TRUE(testing::wait_until_true([&] { return !bench.store->error().empty(); }));
  EXPECT_FALSE(bench.store->is_written(ticket));
  bench.disk->heal();
  EXPECT_TRUE(testing::wait_until_true([&] { return bench.store->is_written(ticket); }));
  EXPECT_TRUE(bench.store->load(1).has_value());
  EXPECT_EQ(bench.outcomes->await(ticket).error, "") << "though no client has waited for it";
  EXPECT_TRUE(bench.outcomes->all().back().is_of_kept_ones);
}

TEST(GroupCommitTest, StopWritesWhatThereIs) {
  for (int i = 0; i < 20; ++i) {
    StoreBench bench;
    bench.open();
    bench.put(accept_batch(1, 10));
    StepMaker steps(1);
    bench.put(steps.end_jobs({2, 5}));
    ChangesRow changes;
    changes.is_paused = true;
    bench.put(ChangeBatch{.sequence = 1, .changes = changes});
    bench.put(steps.end_jobs({7, 9}));
    EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  }
}

TEST(GroupCommitTest, AfterStopNothingIsWritten) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  bench.store->stop();
  bench.store->put(accept_batch(2, 10), Urgency::kAwaited);
  bench.store->journal(1)->record(StepMaker(1).end_jobs({0, 5}).step);
  bench.store->journal(1)->wait_for_room();
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(GroupCommitTest, WhoeverRecordsMoreThanTheDiskTakesWaitsForRoom) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 1000));
  const std::unique_ptr<BatchJournal> journal = bench.store->journal(1);
  bench.disk->hold_syncs();
  StepMaker steps(1);
  // Rows that claim to be large and are not: their stated size counts.
  const auto record = [&](IndexRange range, std::size_t bytes) {
    RecordStep write = steps.cancel_jobs(range, "no");
    write.step.rows.size_bytes = bytes;
    journal->record(std::move(write.step));
  };
  record({0, 10}, GroupCommit::kMostPending / 2);
  journal->wait_for_room();
  record({10, 20}, GroupCommit::kMostPending / 2);
  std::atomic<bool> went_on{false};
  std::thread worker([&] {
    journal->wait_for_room();
    went_on = true;
  });
  ASSERT_TRUE(bench.disk->await_held());
  EXPECT_FALSE(bench.store->has_room());
  // That it waits cannot be observed; that it does not wait would be, within this time.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(went_on);
  bench.disk->release();
  worker.join();
  EXPECT_TRUE(went_on);
  EXPECT_TRUE(bench.store->has_room());
}

// As after a RETRY of scattered jobs: clients' writes would wait behind all of these.
TEST(GroupCommitTest, VeryManyStepsOfOneJobEachWeighWhatTheWriterNeedsForThem) {
  StoreBench bench;
  bench.open();
  constexpr std::uint64_t kFull = GroupCommit::kMostPending / kCostOfWrite;
  bench.commit(accept_batch(1, kFull + 1));
  bench.disk->hold_syncs();
  StepMaker steps(1);
  const auto record = [&](std::uint64_t job) {
    bench.store->put(steps.end_jobs({job, job + 1}), Urgency::kWithNext);
  };
  for (std::uint64_t job = 0; job < kFull / 2; ++job) record(job);
  EXPECT_TRUE(bench.store->has_room());
  for (std::uint64_t job = kFull / 2; job <= kFull; ++job) record(job);
  EXPECT_FALSE(bench.store->has_room());
  bench.disk->release();
}

// The step of a retry has no results, but may list millions of ranges.
TEST(GroupCommitTest, ExecutorsDoNotWaitForTheListOfARetry) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 10));
  bench.disk->hold_syncs();
  RecordStep retry = StepMaker(1).end_jobs({0, 1});
  retry.step.requeued.resize(GroupCommit::kMostPending / sizeof(IndexRange) + 1, {0, 1});
  bench.store->put(std::move(retry), Urgency::kWithNext);
  EXPECT_TRUE(bench.store->has_room());
  bench.disk->release();
}

TEST(GroupCommitTest, AWriterOfFewResultsDoesNotWaitForTheResultsOfAnotherBatch) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 1000));
  bench.commit(accept_batch(2, 1000));
  const std::unique_ptr<BatchJournal> large = bench.store->journal(1);
  const std::unique_ptr<BatchJournal> small = bench.store->journal(2);
  StepMaker large_steps(1);
  StepMaker small_steps(2);
  std::uint64_t next = 0;
  const auto record = [&](BatchJournal& journal, StepMaker& steps, std::size_t bytes) {
    RecordStep write = steps.cancel_jobs({next, next + 1}, "no");
    ++next;
    write.step.rows.size_bytes = bytes;
    journal.record(std::move(write.step));
  };
  // Earlier results of the small batch, which are on the disk, do not count.
  for (int i = 0; i < 3; ++i) {
    record(*small, small_steps, GroupCommit::kFewPending);
    bench.flush();
  }
  bench.disk->hold_syncs();
  record(*large, large_steps, GroupCommit::kMostPending + 1);
  record(*small, small_steps, 40);
  EXPECT_FALSE(bench.store->has_room());
  const auto goes_on = [](BatchJournal& journal) {
    return std::async(std::launch::async, [&journal] { journal.wait_for_room(); });
  };
  const auto is_done = [](const std::future<void>& waits, std::chrono::milliseconds within) {
    return waits.wait_for(within) == std::future_status::ready;
  };
  constexpr auto kDeadline = std::chrono::seconds(10);
  EXPECT_TRUE(is_done(goes_on(*small), kDeadline));
  // That they wait cannot be observed; that they do not wait would be, within this time.
  constexpr auto kShort = std::chrono::milliseconds(50);
  const auto large_waits = goes_on(*large);
  EXPECT_FALSE(is_done(large_waits, kShort));
  // All batches together have a bound, too.
  record(*large, large_steps, GroupCommit::kMorePending);
  const auto small_waits = goes_on(*small);
  EXPECT_FALSE(is_done(small_waits, kShort));
  bench.disk->release();
  EXPECT_TRUE(is_done(large_waits, kDeadline));
  EXPECT_TRUE(is_done(small_waits, kDeadline));
}

TEST(GroupCommitTest, ManySmallBatchesOfOneUserLeaveRoomForThoseOfAnother) {
  constexpr std::uint64_t kMany = 80;  // with 5 MB together
  StoreBench bench;
  bench.open();
  std::vector<std::unique_ptr<BatchJournal>> journals;
  for (std::uint64_t batch = 1; batch <= kMany + 1; ++batch) {
    bench.commit(accept_batch(batch, 1));
    journals.push_back(bench.store->journal(batch, PayloadParts::kUnknown, batch <= kMany ? 1 : 2));
  }
  bench.disk->hold_syncs();
  for (std::uint64_t batch = 1; batch <= kMany + 1; ++batch) {
    RecordStep write = StepMaker(batch).cancel_jobs({0, 1}, "no");
    write.step.rows.size_bytes = 62'500;
    journals[batch - 1]->record(std::move(write.step));
  }
  EXPECT_FALSE(bench.store->has_room());
  const auto goes_on = [&](std::uint64_t batch) {
    return std::async(std::launch::async, [&, batch] { journals[batch - 1]->wait_for_room(); });
  };
  constexpr auto kDeadline = std::chrono::seconds(10);
  EXPECT_EQ(goes_on(kMany + 1).wait_for(kDeadline), std::future_status::ready);
  // That it waits cannot be observed; that it does not wait would be, within this time.
  const auto waits = goes_on(kMany);
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  bench.disk->release();
  EXPECT_EQ(waits.wait_for(kDeadline), std::future_status::ready);
}

TEST(GroupCommitTest, WhileTheDiskFailsMoreMayWaitForItAndStopReleasesAll) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 1000));
  const std::unique_ptr<BatchJournal> journal = bench.store->journal(1);
  bench.disk->fail_syncs();
  StepMaker steps(1);
  RecordStep write = steps.cancel_jobs({0, 10}, "no");
  write.step.rows.size_bytes = GroupCommit::kMostPendingWhileItFails / 2;
  journal->record(std::move(write.step));
  ASSERT_TRUE(testing::wait_until_true([&] { return !bench.store->error().empty(); }));
  journal->wait_for_room();
  write = steps.cancel_jobs({10, 20}, "no");
  write.step.rows.size_bytes = GroupCommit::kMostPendingWhileItFails / 2;
  journal->record(std::move(write.step));
  std::atomic<bool> went_on{false};
  std::thread worker([&] {
    journal->wait_for_room();
    went_on = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(went_on);
  bench.store->stop();
  worker.join();
}

TEST(GroupCommitTest, WithoutFsyncNobodyWaitsForTheDiskWhichIsSyncedASecondLater) {
  StoreBench bench(1, config::Durability::kAsync);
  bench.open();
  bench.disk->hold_syncs();
  EXPECT_EQ(bench.outcomes->await(bench.put(accept_batch(1, 10))).error, "");
  ASSERT_TRUE(bench.disk->await_held());
  bench.disk->release();
  // After the sync, on the same thread.
  bench.flush();
  bench.disk->cut_power();
  bench.close();
  bench.disk->lose_power();
  EXPECT_TRUE(is_same(bench.open(), bench.model.picture()));
}

TEST(GroupCommitTest, WithoutFsyncAWriteForWhichNoClientWaitsIsWrittenSoonWheneverItComes) {
  StoreBench bench(1, config::Durability::kAsync);
  bench.open();
  int late = 0;
  for (std::uint64_t sequence = 1; sequence <= 50 && late < 2; ++sequence) {
    EXPECT_EQ(bench.outcomes->await(bench.put(accept_batch(sequence, 2))).error, "");
    // Just when the writer looks for more before it sleeps until the sync, a second later.
    const Ticket ticket = bench.put(ForgetBatch{sequence}, Urgency::kWithNext);
    const Instant end = now() + std::chrono::milliseconds(500);
    while (!bench.store->is_written(ticket) && now() < end) std::this_thread::yield();
    if (!bench.store->is_written(ticket)) ++late;
  }
  EXPECT_LT(late, 2) << "one may be due to other programs that have the processors";
}

// A store for whose writer there is always more to do: each outcome is answered with a write.
struct BusyBench : StoreBench {
  explicit BusyBench(config::Durability durability = config::Durability::kFsync) : StoreBench(1, durability) {
    EXPECT_TRUE(try_recover());
    store->start([this](const Outcome&) { store->put(ForgetBatch{1}, Urgency::kAwaited); });
    first = store->put(accept_batch(1, 2), Urgency::kAwaited);
  }
  ~BusyBench() { close(); }
  Ticket first;
};

TEST(GroupCommitTest, MemoryOfResultsIsFreedWhileClientsWriteAllTheTime) {
  BusyBench bench;
  std::atomic<bool> is_free = false;
  bench.store->free_results([&is_free] { is_free = true; });
  EXPECT_TRUE(testing::wait_until_true([&] { return is_free.load(); }));
}

TEST(GroupCommitTest, WithoutFsyncTheDiskIsSyncedWhileClientsWriteAllTheTime) {
  BusyBench bench(config::Durability::kAsync);
  // Opening has left something to be synced at once.
  ASSERT_TRUE(testing::wait_until_true([&] { return bench.store->is_written(bench.first); }));
  const std::uint64_t syncs = bench.disk->syncs();
  EXPECT_TRUE(testing::wait_until_true([&] { return bench.disk->syncs() > syncs; }));
}

TEST(GroupCommitTest, WithoutDurabilityNothingIsSyncedUntilTheEnd) {
  StoreBench bench(1, config::Durability::kNone);
  bench.open();
  const std::uint64_t syncs = bench.disk->syncs();
  bench.commit(accept_batch(1, 10));
  bench.commit(accept_batch(2, 10));
  EXPECT_EQ(bench.disk->syncs(), syncs);
  bench.close();
  bench.disk->lose_power();
  EXPECT_TRUE(is_same(bench.open(), bench.model.picture())) << "after a clean end";
}

}  // namespace
}  // namespace locksley::daemon
