// Large writes: their parts, their tickets, and what follows them.
#include "daemon/store/write/staged_writes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::count_rows;
using ::testing::ElementsAre;
using testing::is_same;
using ::testing::IsEmpty;
using testing::payloads_of;
using testing::StoreBench;

constexpr std::size_t kPart = 10'000;

// With so many payloads of 1,000 bytes.
AcceptBatch batch_of(std::uint64_t sequence, std::size_t payloads) {
  AcceptBatch accept = accept_batch(sequence, 0);
  accept.row.jobs = payloads;
  accept.row.payload_bytes = 1'000 * payloads;
  accept.payloads = payloads_of(std::vector(payloads, std::string(1'000, 'x')));
  return accept;
}

Ticket add(StagedWrites& staged, StoreWrite write, Ticket first) {
  const std::size_t cost = cost_of(write);
  EXPECT_TRUE(staged.takes(write, cost));
  return staged.add(std::move(write), cost, Urgency::kAwaited, first);
}

bool takes(StagedWrites& staged, const StoreWrite& write) { return staged.takes(write, cost_of(write)); }

TEST(StagedWritesTest, TakesLargeWritesAndWhatFollowsThem) {
  StagedWrites staged(kPart);
  EXPECT_FALSE(takes(staged, batch_of(1, 5)));
  AcceptBatch one_payload = accept_batch(1, 0);
  one_payload.payloads = payloads_of({std::string(100'000, 'x')});
  EXPECT_FALSE(takes(staged, one_payload)) << "one payload is one row";
  EXPECT_EQ(add(staged, batch_of(1, 30), 5), 5U + 3) << "three groups have parts";
  EXPECT_TRUE(takes(staged, ChangeBatch{.sequence = 1, .changes = {}}));
  EXPECT_FALSE(takes(staged, ChangeBatch{.sequence = 2, .changes = {}}));
  EXPECT_FALSE(takes(staged, SetCustomer{}));
}

TEST(StagedWritesTest, EachGroupHasAPartAndTheLastHasTheWriteWithItsFollowers) {
  StagedWrites staged(kPart);
  const Ticket ticket = add(staged, batch_of(1, 30), 5);
  EXPECT_EQ(add(staged, ChangeBatch{.sequence = 1, .changes = {}}, 5), ticket);
  EXPECT_EQ(staged.last(), ticket);
  StagedWrites::Writes writes;
  std::vector<std::uint64_t> begins;
  for (Ticket group = 5; group < ticket; ++group) {
    EXPECT_EQ(staged.take(group, writes), 0U);
    const auto part = staged.part_for(group);
    ASSERT_TRUE(part.has_value());
    EXPECT_EQ(part->begins_batch, group == 5);
    begins.push_back(part->from);
    staged.part_written({.payloads = 10, .bytes = 10'000});
  }
  EXPECT_THAT(begins, ElementsAre(0, 10, 20));
  EXPECT_FALSE(staged.part_for(ticket).has_value());
  EXPECT_EQ(staged.take(ticket, writes), 2U) << "two clients wait";
  ASSERT_EQ(writes.size(), 2U);
  EXPECT_EQ(std::get<AcceptBatch>(writes[0]).ahead.count, 30U);
  EXPECT_TRUE(std::holds_alternative<ChangeBatch>(writes[1]));
  EXPECT_TRUE(staged.empty());
}

TEST(StagedWritesTest, TheNextOneBeginsWhenThePartsBeforeAreWritten) {
  StagedWrites staged(kPart);
  EXPECT_EQ(add(staged, batch_of(1, 30), 5), 8U);
  EXPECT_EQ(add(staged, batch_of(2, 20), 5), 10U);
  EXPECT_EQ(add(staged, batch_of(3, 20), 20), 22U) << "not before what gathered when it came";
  EXPECT_FALSE(staged.part_for(4).has_value());
}

TEST(StagedWritesTest, AfterAFailureEachIsWrittenWhole) {
  StagedWrites staged(kPart);
  const Ticket ticket = add(staged, batch_of(1, 30), 5);
  ASSERT_TRUE(staged.part_for(5).has_value());
  staged.part_written({.payloads = 10, .bytes = 10'000});
  staged.write_whole();
  EXPECT_FALSE(staged.part_for(5).has_value());
  StagedWrites::Writes writes;
  staged.take(ticket, writes);
  const PayloadsAhead& ahead = std::get<AcceptBatch>(writes.at(0)).ahead;
  EXPECT_EQ(ahead.count, 0U);
  EXPECT_TRUE(ahead.were_begun);
}

TEST(StagedWritesTest, AMarkerComesAfterTheStepsThatAreHere) {
  StagedWrites staged(kPart);
  const Ticket ticket = add(staged, batch_of(1, 30), 5);
  EXPECT_EQ(staged.last_step(), 0U);
  add(staged, RecordStep{.sequence = 1, .step = {}}, 5);
  EXPECT_EQ(staged.last_step(), ticket);
  EXPECT_EQ(staged.add_marker(), ticket);
}

TEST(StagedWritesTest, StepsOfABatchDoNotWaitForJobsThatAreAdded) {
  StagedWrites staged(kPart);
  AddJobs jobs{.sequence = 1, .first = 7, .payloads = batch_of(1, 30).payloads, .changes = {}};
  add(staged, std::move(jobs), 5);
  RecordStep step{.sequence = 1, .step = {}};
  EXPECT_FALSE(takes(staged, step));
  step.step.finished_at = 1;
  EXPECT_TRUE(takes(staged, step)) << "the end is about all jobs";
}

TEST(StagedWritesTest, ABatchDoesNotComeBeforeOneThatItWaitsFor) {
  StagedWrites staged(kPart);
  const Ticket ticket = add(staged, batch_of(1, 30), 5);
  AcceptBatch waits = accept_batch(2, 1);
  waits.row.after.push_back({1, "", false});
  EXPECT_EQ(add(staged, waits, 5), ticket);
  EXPECT_EQ(add(staged, ChangeBatch{.sequence = 2, .changes = {}}, 5), ticket) << "and what is put about it";
  waits = accept_batch(3, 1);
  waits.row.after.push_back({2, "", false});
  EXPECT_EQ(add(staged, waits, 5), ticket);
  EXPECT_FALSE(takes(staged, accept_batch(4, 1)));
}

// What the writes must follow, found by a look at all that are staged.
class SlowLook {
 public:
  // 0: the write may go before.
  Ticket leader_of(const StoreWrite& write) const {
    const auto* const accept = std::get_if<AcceptBatch>(&write);
    Ticket last = 0;
    for (const Each& each : staged_) {
      const bool leads = accept == nullptr ? each.batches.contains(sequence_of(write))
                                           : std::ranges::any_of(accept->row.after, [&](const auto& after) {
                                               return each.accepted.contains(after.sequence);
                                             });
      if (leads) last = each.ticket;
    }
    if (last == 0 || !std::holds_alternative<RecordStep>(write)) return last;
    return std::ranges::find(staged_, last, &Each::ticket)->is_add ? 0 : last;
  }
  void add_large(const StoreWrite& write, Ticket ticket) {
    staged_.push_back({.ticket = ticket, .is_add = std::holds_alternative<AddJobs>(write)});
    add(write, ticket);
  }
  void add(const StoreWrite& write, Ticket leader) {
    Each& each = *std::ranges::find(staged_, leader, &Each::ticket);
    each.batches.insert(sequence_of(write));
    if (std::holds_alternative<AcceptBatch>(write)) each.accepted.insert(sequence_of(write));
  }
  void take(Ticket ticket) {
    std::erase_if(staged_, [ticket](const Each& each) { return each.ticket == ticket; });
  }

 private:
  struct Each {
    Ticket ticket;
    bool is_add;
    std::set<std::uint64_t> batches = {};
    std::set<std::uint64_t> accepted = {};
  };
  std::vector<Each> staged_;
};

// Each kind of write, of a few batches, so that many follow others.
StoreWrite random_write(std::mt19937_64& random, std::uint64_t& last_batch) {
  const std::uint64_t batch =
      last_batch == 0 ? 0 : last_batch - random() % std::min<std::uint64_t>(last_batch, 8);
  switch (batch == 0 ? 0 : random() % 6) {
    case 0:
      return batch_of(++last_batch, 30);
    case 1: {
      AcceptBatch waits = accept_batch(last_batch + 1, 1);
      for (int i = 0; i < 2; ++i) waits.row.after.push_back({1 + random() % last_batch, "", false});
      ++last_batch;
      return waits;
    }
    case 2:
      return AddJobs{.sequence = batch, .first = 7, .payloads = batch_of(1, 30).payloads, .changes = {}};
    case 3:
      return testing::add_jobs(batch, 7, {"job"});
    case 4:
      return RecordStep{.sequence = batch, .step = {}};
    default:
      return ChangeBatch{.sequence = batch, .changes = {}};
  }
}

TEST(StagedWritesTest, EachWriteFollowsTheLastOneThatItMust) {
  std::mt19937_64 random(1);
  StagedWrites staged(kPart);
  SlowLook slow;
  std::uint64_t batches = 0;
  Ticket group = 1;
  int followers = 0;
  for (int i = 0; i < 5'000; ++i) {
    const StoreWrite write = random_write(random, batches);
    const std::size_t cost = cost_of(write);
    const bool is_large = cost > kPart;
    const Ticket leader = slow.leader_of(write);
    ASSERT_EQ(staged.takes(write, cost), is_large || leader != 0) << i;
    if (is_large) {
      slow.add_large(write, staged.add(StoreWrite(write), cost, Urgency::kAwaited, group));
    } else if (leader != 0) {
      ASSERT_EQ(staged.add(StoreWrite(write), cost, Urgency::kAwaited, group), leader) << i;
      slow.add(write, leader);
      ++followers;
    }
    if (random() % 2 == 0) continue;
    StagedWrites::Writes writes;
    slow.take(group);
    staged.take(group, writes);
    if (staged.part_for(group++)) staged.part_written({.payloads = 10, .bytes = 10'000});
  }
  EXPECT_GT(followers, 500);
}

// ---- With a store ----

AcceptBatch large_batch(std::uint64_t sequence) { return batch_of(sequence, 20 * kMostInGroup / 1'000 / 4); }

TEST(StagedWritesTest, ASmallWriteDoesNotWaitForALargeOneBeforeIt) {
  StoreBench bench;
  bench.open();
  bench.disk->hold_syncs();
  bench.put(accept_batch(1, 1));
  ASSERT_TRUE(bench.disk->await_held());
  const Ticket large = bench.put(large_batch(2));
  const Ticket small = bench.put(accept_batch(3, 1));
  EXPECT_LE(small + 4, large);
  ChangeBatch change{.sequence = 2, .changes = {}};
  change.changes.weight = 7;
  const Ticket follows = bench.put(change);
  EXPECT_EQ(follows, large);
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(small).up_to, small);
  EXPECT_EQ(bench.outcomes->await(large).error, "");
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST(StagedWritesTest, OfOneThatWasNotAcceptedAStartDeletesThePayloads) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 1));
  bench.close();
  bench.edit([](Engine::Group& rows) {
    rows.put(Table::kIndex, row_key(kChangesKey, 5), encode(ChangesRow{}));
    rows.put(Table::kPayloads, part_key(5, 0), "x");
    const AcceptBatch later = accept_batch(6, 0);
    rows.put(Table::kIndex, row_key(kAcceptedKey, 6), encode(later.row));
  });
  bench.open();
  bench.close();
  EXPECT_EQ(count_rows(bench.raw(), 5, "payloads"), 0U);
  EXPECT_EQ(count_rows(bench.raw(), 5, "index"), 0U);
  EXPECT_EQ(count_rows(bench.raw(), 6, "index"), 1U);
}

TEST(StagedWritesTest, WhatIsForgottenBeforeItWasAcceptedLeavesNothing) {
  StoreBench bench;
  bench.open();
  bench.disk->hold_syncs();
  bench.put(accept_batch(1, 1));
  ASSERT_TRUE(bench.disk->await_held());
  const Ticket large = bench.put(large_batch(2));
  EXPECT_EQ(bench.put(ForgetBatch{.sequence = 2}), large);
  bench.disk->release();
  EXPECT_EQ(bench.outcomes->await(large).error, "");
  bench.close();
  EXPECT_EQ(count_rows(bench.raw(), 2, "payloads"), 0U);
  EXPECT_EQ(count_rows(bench.raw(), 2, "index"), 0U);
}

TEST(StagedWritesTest, AStopWritesWhatIsStaged) {
  StoreBench bench;
  bench.open();
  bench.put(large_batch(1));
  bench.put(accept_batch(2, 1));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

}  // namespace
}  // namespace locksley::daemon
