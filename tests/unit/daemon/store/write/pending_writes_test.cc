// Of the changes of a batch only the newest waits for the disk.
#include "daemon/store/write/pending_writes.h"

#include <gmock/gmock.h>

#include <string>
#include <variant>

#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::is_same;
using testing::StoreBench;

ChangeBatch change(std::uint64_t sequence, std::uint32_t weight, IndexRange freed = {}) {
  ChangeBatch made{.sequence = sequence, .changes = {}, .freed_rows = freed};
  made.changes.weight = weight;
  return made;
}

RecordStep step(std::uint64_t sequence) { return {.sequence = sequence, .step = {}}; }

// "c1:7" is a change of batch 1 with weight 7.
std::vector<std::string> texts(const PendingWrites& writes) {
  std::vector<std::string> all;
  for (const StoreWrite& write : writes.all()) {
    if (const auto* changed = std::get_if<ChangeBatch>(&write)) {
      all.push_back("c" + std::to_string(changed->sequence) + ":" + std::to_string(changed->changes.weight));
    } else if (const auto* recorded = std::get_if<RecordStep>(&write)) {
      all.push_back("s" + std::to_string(recorded->sequence));
    } else if (const auto* jobs = std::get_if<AddJobs>(&write)) {
      all.push_back("a" + std::to_string(jobs->sequence));
    } else if (const auto* set = std::get_if<SetCustomer>(&write)) {
      const std::string names = set->row.user + "/" + set->row.customer;
      all.push_back(names + ":" + std::to_string(set->row.settings.weight.value_or(0)));
    }
  }
  return all;
}

TEST(PendingWritesTest, AMillionChangesTakeTheRoomOfTheirBatches) {
  PendingWrites writes;
  for (std::uint32_t i = 0; i < 1'000'000; ++i) writes.add(change(i % 5, i));
  EXPECT_EQ(writes.size(), 5U);
  EXPECT_LE(writes.all().size(), 16U);
  EXPECT_EQ(writes.cost(), 5 * kCostOfWrite) << "replaced ones cost nothing";
  EXPECT_THAT(texts(writes),
              ::testing::ElementsAre("c0:999995", "c1:999996", "c2:999997", "c3:999998", "c4:999999"));
}

SetCustomer set_customer(const std::string& user, const std::string& customer, std::uint32_t weight) {
  return {{user, customer, {.weight = weight}}};
}

TEST(PendingWritesTest, OfACustomerToo) {
  PendingWrites writes;
  writes.add(set_customer("u", "a", 1));
  writes.add(change(1, 1));
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    writes.add(set_customer("u", "b", i));
    writes.add(set_customer("v", "b", i + 1));
  }
  writes.add(set_customer("u", "a", 2));
  EXPECT_THAT(texts(writes), ::testing::ElementsAre("c1:1", "u/b:999", "v/b:1000", "u/a:2"));
  EXPECT_EQ(writes.cost(), 4 * kCostOfWrite);
  writes.take();
  writes.add(set_customer("u", "a", 3));
  EXPECT_EQ(writes.cost(), kCostOfWrite);
  EXPECT_THAT(texts(writes), ::testing::ElementsAre("u/a:3"));
}

TEST(PendingWritesTest, TheNewestChangeComesAfterAllThatCameBeforeIt) {
  PendingWrites writes;
  writes.add(change(1, 1));
  writes.add(step(1));
  writes.add(change(2, 2));
  writes.add(change(1, 3));
  EXPECT_THAT(texts(writes), ::testing::ElementsAre("s1", "c2:2", "c1:3"));
  // A change that may delete payloads in the way of added ones stays before these.
  writes.add(AddJobs{.sequence = 1, .first = 0, .payloads = nullptr, .changes = {}});
  writes.add(change(1, 4));
  writes.add(change(1, 5));
  for (std::uint32_t i = 0; i < 100; ++i) writes.add(change(2, i));
  EXPECT_THAT(texts(writes), ::testing::ElementsAre("s1", "c1:3", "a1", "c1:5", "c2:99"));
  writes.take();
  EXPECT_TRUE(writes.empty());
  writes.add(change(1, 6));
  EXPECT_THAT(texts(writes), ::testing::ElementsAre("c1:6"));
}

TEST(PendingWritesTest, WhatAReplacedChangeDeletesIsDeletedByTheNewOne) {
  PendingWrites writes;
  ChangeBatch first = change(1, 1, {5, 10});
  first.trims_payloads = true;
  writes.add(first);
  writes.add(change(1, 2));
  writes.add(change(1, 3, {10, 30}));
  const auto last = std::get<ChangeBatch>(writes.all().back());
  EXPECT_TRUE(last.trims_payloads);
  EXPECT_EQ(last.freed_rows, (IndexRange{5, 30}));
}

TEST(PendingWritesTest, ManyChangesWhileTheDiskFailsAreWrittenAsTheLastOfThem) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 3));
  bench.disk->fail_syncs();
  for (std::uint32_t i = 1; i <= 1000; ++i) {
    const Ticket ticket = bench.put(change(1, i % 7 + 1));
    ASSERT_NE(bench.outcomes->await(ticket).error, "");
  }
  bench.disk->heal();
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

}  // namespace
}  // namespace locksley::daemon
