// The groups in which writes wait.
#include "daemon/store/write/write_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::StoreModel;

constexpr std::size_t kMost = 5 * kCostOfWrite;

// While anything is staged, each reply that a remote worker waits for puts a marker.
TEST(WriteQueueTest, MarkersDoNotFillAGroup) {
  WriteQueue queue(kMost);
  const Ticket ticket = queue.put(accept_batch(1, 1), Urgency::kAwaited);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queue.put(std::monostate(), Urgency::kAwaited), ticket);
  EXPECT_EQ(queue.awaited(), 101U);
  EXPECT_FALSE(queue.has_full_or_staged());
  EXPECT_EQ(queue.put(accept_batch(2, 1), Urgency::kAwaited), ticket);
}

// Else who waits until all that was put is written would wait for a group that may stay empty.
TEST(WriteQueueTest, TheLastGroupWithAWriteIsNotTheEmptyOneThatGathers) {
  WriteQueue queue(kMost);
  EXPECT_EQ(queue.last_put(), 0U);
  const Ticket ticket = queue.put(RecordStep{.sequence = 1, .step = {}}, Urgency::kWithNext);
  EXPECT_EQ(queue.last_put(), ticket);
  ASSERT_TRUE(queue.take_first({}));
  EXPECT_EQ(queue.last_put(), ticket) << "its group is being written";
  EXPECT_EQ(queue.gathering(), ticket + 1);
  AcceptBatch large = accept_batch(1, 0);
  large.payloads = testing::payloads_of(std::vector(30, std::string(1'000, 'x')));
  const Ticket staged = queue.put(std::move(large), Urgency::kAwaited);
  EXPECT_EQ(queue.last_put(), staged);
}

// As that of a retry of jobs that lie scattered.
TEST(WriteQueueTest, AStepWithVeryManyRangesFillsItsGroup) {
  WriteQueue queue(kMost);
  RecordStep step{.sequence = 1, .step = {}};
  step.step.requeued.resize(kMost / kCostOfRange);
  const Ticket ticket = queue.put(std::move(step), Urgency::kWithNext);
  EXPECT_TRUE(queue.has_full_or_staged());
  EXPECT_EQ(queue.put(accept_batch(2, 1), Urgency::kAwaited), ticket + 1);
}

TEST(WriteQueueTest, AMarkerComesAfterStepsInFullGroupsAndInStagedOnes) {
  WriteQueue queue(kMost);
  AcceptBatch large = accept_batch(1, 0);
  large.payloads = testing::payloads_of(std::vector(30, std::string(1'000, 'x')));
  const Ticket staged = queue.put(std::move(large), Urgency::kAwaited);
  EXPECT_EQ(queue.put(RecordStep{.sequence = 1, .step = {}}, Urgency::kWithNext), staged);
  EXPECT_EQ(queue.put(std::monostate(), Urgency::kAwaited), staged);
  Ticket last = 0;
  while (last <= staged) {
    last = queue.put(RecordStep{.sequence = 2, .step = {}}, Urgency::kWithNext);
  }
  EXPECT_EQ(queue.put(std::monostate(), Urgency::kAwaited), last) << "others have gone past it";
}

// The disk may have no room for a large write: then the other writes of its group would be refused.
TEST(WriteQueueTest, ALargeWriteSharesItsGroupWithNoOtherBatch) {
  WriteQueue queue(kMost);
  AcceptBatch staged = accept_batch(1, 0);
  staged.payloads = testing::payloads_of(std::vector(30, std::string(1'000, 'x')));
  AcceptBatch alone = accept_batch(2, 0);
  alone.payloads = testing::payloads_of({std::string(2 * kMost, 'x')});
  std::map<std::uint64_t, Ticket> tickets;
  const auto put = [&](AcceptBatch write) {
    const std::uint64_t sequence = write.sequence;
    tickets[sequence] = queue.put(std::move(write), Urgency::kAwaited);
  };
  put(accept_batch(3, 1));
  put(std::move(staged));
  put(std::move(alone));
  std::uint64_t next = 4;
  for (int group = 0; group < 20; ++group) {
    put(accept_batch(next++, 1));
    const auto taken = queue.take_first({});
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->ticket, static_cast<Ticket>(group + 1));
    EXPECT_EQ(queue.last_taken(), taken->ticket);
    EXPECT_EQ(taken->awaited, taken->writes.size());
    for (const StoreWrite& write : taken->writes) {
      EXPECT_EQ(tickets.at(sequence_of(write)), taken->ticket);
      EXPECT_TRUE(sequence_of(write) > 2 || taken->writes.size() == 1U);
      tickets.erase(sequence_of(write));
    }
    if (taken->part) queue.part_written({.payloads = 1, .bytes = 1'000});
  }
  EXPECT_FALSE(tickets.contains(1));
  EXPECT_FALSE(tickets.contains(2));
}

// A flood of small writes fills one group after the other: each would else grow in memory of its
// own.
TEST(WriteQueueTest, AGroupThatBeginsBehindAFullOneGetsTheSpareMemory) {
  WriteQueue queue(kMost);
  std::uint64_t sequence = 0;
  const auto fill_a_group = [&] {
    for (std::size_t cost = 0; cost < kMost; cost += kCostOfWrite) {
      queue.put(ForgetBatch{.sequence = ++sequence}, Urgency::kAwaited);
    }
  };
  const auto take = [&](WriteQueue::Writes spare) { return queue.take_first(std::move(spare)).value(); };
  fill_a_group();
  WriteQueue::Writes spare;
  spare.reserve(100);
  const StoreWrite* const memory = spare.data();
  take(std::move(spare));
  fill_a_group();
  fill_a_group();
  take({});
  EXPECT_EQ(take({}).writes.data(), memory);
}

// A daemon with two batches, of which the second is open and waits for the first, and a store that
// loses power after each group.
class WaitingBatchTest : public ::testing::Test {
 protected:
  // Whatever is in the store after a group, it has the first batch or its outcome for the second.
  void expect_outcome_with_deletion(WriteQueue& queue) {
    while (const auto group = queue.take_first({})) {
      for (const StoreWrite& write : group->writes) store_.apply(write);
      const auto second = store_.batches.find(2);
      if (second == store_.batches.end()) continue;
      const auto& changes = second->second.changes;
      const bool is_told =
          changes && (changes->is_released || changes->is_cancelled || changes->is_satisfied(0));
      EXPECT_TRUE(is_told || store_.batches.contains(1)) << "after group " << group->ticket;
      EXPECT_LE(changes ? changes->jobs : 0, second->second.payloads.size())
          << "after group " << group->ticket;
      if (group->part) queue.part_written({.payloads = 5, .bytes = 5'000});
    }
    EXPECT_FALSE(store_.batches.contains(1));
    EXPECT_EQ(store_.batches.at(2).changes->jobs, jobs_);
    EXPECT_EQ(store_.batches.at(2).changes->is_closed, is_closed_);
  }
  AcceptBatch waiting() const {
    AcceptBatch accept = testing::open_batch(2);
    accept.row.after = {{1, "first", true}};
    return accept;
  }
  AddJobs add(std::size_t payloads) {
    AddJobs jobs = testing::add_jobs(2, jobs_, std::vector(payloads, std::string(1'000, 'x')));
    jobs_ += payloads;
    jobs.changes.payload_bytes = 1'000 * jobs_;
    return jobs;
  }
  ChangeBatch change() {
    ChangeBatch told{.sequence = 2, .changes = {}};
    told.changes.jobs = jobs_;
    told.changes.payload_bytes = 1'000 * jobs_;
    told.changes.is_closed = is_closed_;
    return told;
  }
  ChangeBatch released() {
    ChangeBatch told = change();
    told.changes.is_released = true;
    return told;
  }
  // After three ADDs, of which the first and the last are large.
  void put_after_jobs(WriteQueue& queue, ChangeBatch told) {
    apply(accept_batch(1, 1));
    apply(waiting());
    for (const std::size_t payloads : {50U, 3U, 50U}) queue.put(add(payloads), Urgency::kAwaited);
    told.changes.jobs = jobs_;
    told.changes.payload_bytes = 1'000 * jobs_;
    queue.put(std::move(told), Urgency::kAwaited);
    queue.put(ForgetBatch{.sequence = 1}, Urgency::kAwaited);
  }
  void apply(const StoreWrite& write) { store_.apply(write); }
  void close() { is_closed_ = true; }

 private:
  StoreModel store_;
  std::uint64_t jobs_ = 0;
  bool is_closed_ = false;
};

TEST_F(WaitingBatchTest, IsToldOfAnEndBeforeTheDeletionAlthoughManyJobsAreBeingAdded) {
  WriteQueue queue(kMost);
  apply(accept_batch(1, 1));
  apply(waiting());
  queue.put(add(3), Urgency::kAwaited);
  const Ticket staged = queue.put(add(50), Urgency::kAwaited);
  close();
  EXPECT_EQ(queue.put(released(), Urgency::kAwaited), staged) << "the reply waits for all of it";
  EXPECT_LT(queue.put(ForgetBatch{.sequence = 1}, Urgency::kAwaited), staged);
  expect_outcome_with_deletion(queue);
}

// The row that the first of them writes says that the batch waits.
TEST_F(WaitingBatchTest, StaysToldWhenJobsThatWereAddedBeforeItAreWritten) {
  WriteQueue queue(kMost);
  put_after_jobs(queue, released());
  expect_outcome_with_deletion(queue);
}

TEST_F(WaitingBatchTest, StaysCancelledWhenJobsThatWereAddedBeforeItAreWritten) {
  WriteQueue queue(kMost);
  ChangeBatch cancelled = change();
  cancelled.changes.is_cancelled = true;
  put_after_jobs(queue, std::move(cancelled));
  expect_outcome_with_deletion(queue);
}

TEST_F(WaitingBatchTest, IsToldWithItsAcceptanceIfItFollowsALargeOne) {
  WriteQueue queue(kMost);
  AcceptBatch first = accept_batch(1, 0);
  first.payloads = testing::payloads_of(std::vector(30, std::string(1'000, 'x')));
  const Ticket accepted = queue.put(std::move(first), Urgency::kAwaited);
  EXPECT_EQ(queue.put(waiting(), Urgency::kAwaited), accepted);
  const Ticket added = queue.put(add(50), Urgency::kAwaited);
  EXPECT_EQ(queue.put(released(), Urgency::kAwaited), added);
  EXPECT_EQ(queue.put(ForgetBatch{.sequence = 1}, Urgency::kAwaited), accepted);
  expect_outcome_with_deletion(queue);
}

// Else its row, and those put after it, would come before rows that it makes out of date. What is
// told ahead of the jobs may fill the last group before theirs.
class WaitingBatchBehindOthersTest : public WaitingBatchTest, public ::testing::WithParamInterface<int> {};

TEST_P(WaitingBatchBehindOthersTest, ComesAfterTheJobsThatAreAdded) {
  WriteQueue queue(kMost);
  apply(accept_batch(1, 1));
  apply(waiting());
  const Ticket staged = queue.put(add(50), Urgency::kAwaited);
  const Ticket others = static_cast<Ticket>(GetParam());
  for (Ticket n = 0; n < others; ++n) queue.put(ForgetBatch{.sequence = 3 + n}, Urgency::kAwaited);
  close();
  EXPECT_GE(queue.put(released(), Urgency::kAwaited), staged);
  queue.put(ForgetBatch{.sequence = 1}, Urgency::kAwaited);
  expect_outcome_with_deletion(queue);
}
INSTANTIATE_TEST_SUITE_P(WaitingBatchTest, WaitingBatchBehindOthersTest, ::testing::Range(0, 40));

TEST_F(WaitingBatchTest, OtherChangesFollowTheJobsAlone) {
  WriteQueue queue(kMost);
  queue.put(add(50), Urgency::kAwaited);
  queue.put(change(), Urgency::kAwaited);
  EXPECT_TRUE(queue.is_gathering_empty());
}

}  // namespace
}  // namespace locksley::daemon
