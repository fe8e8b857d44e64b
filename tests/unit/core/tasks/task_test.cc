// The count by which a spawner waits, and the memory of tasks.
#include "core/tasks/task.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <vector>

namespace locksley {
namespace {

using Count = BasicTaskCount<StdAtomics>;

TEST(TaskCountTest, ItIsDoneWhenAllThatWereSpawnedHaveEnded) {
  Count count;
  EXPECT_TRUE(count.is_done());
  count.spawned();
  count.spawned();
  EXPECT_FALSE(count.is_done());
  count.finished_by_owner();
  EXPECT_FALSE(count.is_done());
  EXPECT_FALSE(count.finished()) << "the owner is not parked";
  EXPECT_TRUE(count.is_done());
}

TEST(TaskCountTest, TheLastToFinishUnparksTheOwner) {
  Count count;
  for (int i = 0; i < 3; ++i) count.spawned();
  EXPECT_FALSE(count.finished());
  EXPECT_TRUE(count.park_begin());
  EXPECT_FALSE(count.finished());
  EXPECT_TRUE(count.finished());
  count.park_end();
  EXPECT_TRUE(count.is_done());
  count.spawned();
  EXPECT_FALSE(count.is_done()) << "it can be used again";
}

TEST(TaskCountTest, AnOwnerDoesNotParkWhenAllHaveEnded) {
  Count count;
  count.spawned();
  EXPECT_FALSE(count.finished());
  EXPECT_FALSE(count.park_begin());
  EXPECT_TRUE(count.is_done()) << "as if it had not begun";
  count.spawned();
  EXPECT_FALSE(count.is_done());
  EXPECT_FALSE(count.finished());
  EXPECT_TRUE(count.is_done());
}

TEST(TaskCountTest, AParkThatEndsEarlyLeavesWhatIsStillOut) {
  Count count;
  count.spawned();
  count.spawned();
  EXPECT_TRUE(count.park_begin());
  EXPECT_FALSE(count.finished());
  count.park_end();
  EXPECT_FALSE(count.is_done());
  EXPECT_FALSE(count.finished());
  EXPECT_TRUE(count.is_done());
}

std::size_t length(const Task* list) {
  std::size_t length = 0;
  for (; list != nullptr; list = list->next) ++length;
  return length;
}

TEST(TaskDepotTest, AMagazineIsHandedOutToOneAlone) {
  TaskDepot depot;
  Task* const first = depot.full_magazine();
  Task* const second = depot.full_magazine();
  EXPECT_EQ(length(first), TaskDepot::kMagazine);
  EXPECT_NE(first, second);
  depot.take_back(first);
  EXPECT_EQ(depot.full_magazine(), first) << "memory is used again";
  EXPECT_NE(depot.full_magazine(), first) << "but once";
}

TEST(TaskMemoryTest, NoTwoTasksThatAreOutAreTheSame) {
  TaskDepot depot;
  TaskMemory memory(depot);
  std::set<Task*> out;
  for (std::size_t i = 0; i < 3 * TaskDepot::kMagazine + 5; ++i)
    EXPECT_TRUE(out.insert(memory.allocate()).second);
  for (Task* task : out) memory.free(task);
  std::set<Task*> again;
  for (std::size_t i = 0; i < out.size(); ++i) {
    Task* const task = memory.allocate();
    EXPECT_TRUE(again.insert(task).second);
    EXPECT_TRUE(out.contains(task)) << "what was freed is used first";
  }
}

TEST(TaskMemoryTest, WhatOneWorkerFreesAnotherUses) {
  TaskDepot depot;
  TaskMemory spawner(depot);
  TaskMemory thief(depot);
  std::set<Task*> all;
  for (int round = 0; round < 20; ++round) {
    std::vector<Task*> out;
    for (std::size_t i = 0; i < TaskDepot::kMagazine; ++i) out.push_back(spawner.allocate());
    all.insert(out.begin(), out.end());
    for (Task* task : out) thief.free(task);
  }
  EXPECT_LE(all.size(), 5 * TaskDepot::kMagazine) << "both may keep two magazines";
}

// What a closure of `kBytes` bytes and more owns is freed when the closure is dropped.
template <std::size_t kBytes>
void expect_dropped() {
  Task task;
  const auto owned = std::make_shared<int>(7);
  const auto closure = [owned, bytes = std::array<char, kBytes>{}](Context&) { (void)bytes; };
  task.emplace(closure);
  EXPECT_EQ(owned.use_count(), 3);
  task.drop<decltype(closure)>();
  EXPECT_EQ(owned.use_count(), 2);
}

TEST(TaskTest, AClosureThatWillNotRunIsDestroyed) {
  expect_dropped<8>();
  expect_dropped<2 * Task::kInlineBytes>();
}

}  // namespace
}  // namespace locksley
