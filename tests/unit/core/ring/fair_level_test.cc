// One level of the ring by itself: nodes, keys and the level's clock.
#include "core/ring/fair_level.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

namespace locksley {
namespace {

struct Node {
  FairNode fair;
};
using Level = FairLevel<Node>;
constexpr JobLength kBrief = JobLength::kBrief;
constexpr JobLength kLengthy = JobLength::kLengthy;

class FairLevelTest : public ::testing::Test {
 protected:
  // A node that is ready, at a key that is not less than the level's virtual time.
  void enter(Node& node, VirtualTime key = 0, JobLength length = kBrief) LOCKSLEY_REQUIRES(kRingNodes) {
    node.fair.key = key;
    level.set_ready(node, true, length);
  }
  // A whole turn that was expected to cost `expected` and cost `actual`.
  void turn(Node& node, std::int64_t expected, std::int64_t actual) LOCKSLEY_REQUIRES(kRingNodes) {
    const VirtualTime charged = level.charge(node, expected);
    level.settle(node, charged, node.fair.epoch, actual);
    level.set_ready(node, true, node.fair.length);
  }
  Mutex mutex;
  Level level;
  Node a, b;
};

TEST_F(FairLevelTest, ANodeIsReadyWhileItIsInAHeap) {
  const RingLock lock(mutex);
  EXPECT_FALSE(a.fair.is_ready());
  EXPECT_TRUE(level.empty());
  enter(a);
  EXPECT_TRUE(a.fair.is_ready());
  EXPECT_FALSE(level.empty());
  EXPECT_EQ(level.size(), 1u);
  level.set_ready(a, false, kBrief);
  EXPECT_FALSE(a.fair.is_ready());
  EXPECT_TRUE(level.empty());
}

TEST_F(FairLevelTest, TheNodeWithTheLeastKeyIsServedFirstWhateverItsJobs) {
  const RingLock lock(mutex);
  enter(a, 5, kBrief);
  EXPECT_EQ(&level.top(), &a);
  enter(b, 3, kLengthy);
  EXPECT_EQ(&level.top(), &b);
  EXPECT_EQ(&level.top_brief(), &a);
  EXPECT_EQ(level.size(), 2u);
  level.set_ready(a, false, kBrief);
  EXPECT_EQ(&level.top(), &b);
  EXPECT_FALSE(level.has_brief());
  level.set_ready(b, true, kBrief);
  EXPECT_TRUE(level.has_brief());
  EXPECT_EQ(&level.top_brief(), &b);
  EXPECT_EQ(level.size(), 1u);
}

TEST_F(FairLevelTest, OfEqualKeysFewerExecutorsAndThenTheLongestUnservedComeFirst) {
  const RingLock lock(mutex);
  enter(a, 7);
  enter(b, 7);
  EXPECT_EQ(&level.top(), &a) << "it entered first";
  a.fair.executors = 1;
  level.set_ready(a, true, kBrief);
  EXPECT_EQ(&level.top(), &b);
  // Beyond what the key can hold, all numbers of executors are equal.
  a.fair.executors = 2000;
  b.fair.executors = 3000;
  level.set_ready(a, true, kBrief);
  level.set_ready(b, true, kBrief);
  EXPECT_EQ(&level.top(), &a);
}

TEST_F(FairLevelTest, AChargeIsRoundedUpAndTakenBackWhole) {
  const RingLock lock(mutex);
  a.fair.weight = 4;
  enter(a, 100);
  EXPECT_EQ(level.charge(a, 9), 3);
  EXPECT_EQ(a.fair.key, 103);
  EXPECT_EQ(a.fair.executors, 1u);
  level.settle(a, 3, a.fair.epoch, 9);
  EXPECT_EQ(a.fair.key, 102);
  EXPECT_EQ(a.fair.remainder, 1u);
  EXPECT_EQ(a.fair.executors, 0u);
}

TEST_F(FairLevelTest, WhatDoesNotFillAWeightIsPaidWithTheNextTurn) {
  const RingLock lock(mutex);
  a.fair.weight = 4;
  enter(a);
  for (int i = 0; i < 8; ++i) turn(a, 0, 3);
  EXPECT_EQ(a.fair.key, 6);
  EXPECT_EQ(a.fair.remainder, 0u);
}

TEST_F(FairLevelTest, TheVirtualTimeIsTheGreatestKeyThatWasServed) {
  const RingLock lock(mutex);
  enter(a, 10);
  level.charge(a, 5);
  EXPECT_EQ(level.now(), 10);
  level.set_ready(a, true, kBrief);
  level.charge(a, 5);
  EXPECT_EQ(level.now(), 15);
  enter(b, 3);
  EXPECT_EQ(b.fair.key, 15) << "being away earns nothing";
}

TEST_F(FairLevelTest, APreferredNodeDoesNotMoveTheClockPastTheOthers) {
  const RingLock lock(mutex);
  enter(a, 100, kBrief);
  enter(b, 20, kLengthy);
  level.charge(a, 5);
  EXPECT_EQ(level.now(), 20);
}

TEST_F(FairLevelTest, AnAbsurdServiceCountsAsTheGreatest) {
  const RingLock lock(mutex);
  enter(a);
  EXPECT_EQ(level.charge(a, std::numeric_limits<std::int64_t>::max()), Level::kMostService);
}

TEST_F(FairLevelTest, JoiningMovesTheClockOnlyWhereNobodyIsReady) {
  const RingLock lock(mutex);
  enter(a, 50);
  level.join(a);
  EXPECT_EQ(level.now(), 0);
  EXPECT_EQ(a.fair.executors, 1u);
  level.set_ready(a, false, kBrief);
  level.join(a);
  EXPECT_EQ(level.now(), 50);
  EXPECT_EQ(a.fair.executors, 2u);
}

TEST_F(FairLevelTest, AnEstimateTakenBackAfterANewEntryNeverBringsANodeBelowTheVirtualTime) {
  const RingLock lock(mutex);
  enter(a, 0);
  enter(b, 0);
  const VirtualTime charged = level.charge(a, 1000);
  const std::uint32_t epoch = a.fair.epoch;
  level.set_ready(a, false, kBrief);
  for (int i = 0; i < 3; ++i) turn(b, 100, 100);
  EXPECT_EQ(level.now(), 200);
  level.set_ready(a, true, kBrief);  // at its own finish, 1000: 800 ahead
  EXPECT_EQ(a.fair.key, 1000);
  level.settle(a, charged, epoch, 10);
  EXPECT_EQ(a.fair.key, 200) << "its own finish is 10, which is behind the virtual time it entered at";
}

TEST_F(FairLevelTest, AnEstimateThatWasTooSmallIsPaidAfterANewEntryToo) {
  const RingLock lock(mutex);
  enter(a, 0);
  const VirtualTime charged = level.charge(a, 100);
  const std::uint32_t epoch = a.fair.epoch;
  level.set_ready(a, false, kBrief);
  level.set_ready(a, true, kBrief);
  level.settle(a, charged, epoch, 300);
  EXPECT_EQ(a.fair.key, 300);
}

TEST_F(FairLevelTest, TheCompetingWeightIsTheSumOfThoseThatCompete) {
  const RingLock lock(mutex);
  a.fair.weight = 3;
  b.fair.weight = 5;
  level.set_competes(a, true);
  level.set_competes(b, true);
  level.set_competes(b, true);
  EXPECT_EQ(level.competing_weight(), 8u);
  level.set_weight(b, 2);
  EXPECT_EQ(level.competing_weight(), 5u);
  level.set_competes(a, false);
  EXPECT_EQ(level.competing_weight(), 2u);
  level.set_weight(a, 7);
  EXPECT_EQ(level.competing_weight(), 2u) << "it does not compete";
  EXPECT_EQ(a.fair.weight, 7u);
}

TEST_F(FairLevelTest, ANewWeightScalesTheServiceThatIsNotPaidYet) {
  const RingLock lock(mutex);
  a.fair.weight = 10;
  a.fair.remainder = 6;
  level.set_weight(a, 5);
  EXPECT_EQ(a.fair.remainder, 3u);
  level.set_weight(a, 20);
  EXPECT_EQ(a.fair.remainder, 12u);
}

TEST_F(FairLevelTest, TheEndOfABusyPeriodForgivesWhatAnyoneIsAhead) {
  const RingLock lock(mutex);
  enter(a, 0);
  turn(a, 500, 500);
  level.set_ready(a, false, kBrief);
  level.end_busy_period();
  EXPECT_EQ(level.now(), 500);
  enter(b, 0);
  EXPECT_EQ(b.fair.key, 500);
}

TEST_F(FairLevelTest, SettingTheClockBackKeepsTheOrderAndTheDistances) {
  const RingLock lock(mutex);
  enter(a, 1000, kBrief);
  enter(b, 1300, kLengthy);
  level.charge(a, 100);
  level.set_ready(a, true, kBrief);
  const VirtualTime by = level.set_back();
  EXPECT_EQ(by, 1000);
  EXPECT_EQ(level.now(), 0);
  Level::set_back(a, by);
  Level::set_back(b, by);
  EXPECT_EQ(a.fair.key, 100);
  EXPECT_EQ(b.fair.key, 300);
  std::vector<VirtualTime> keys;
  level.for_each_ready(1, [&](const Node&, const FairKey& key) { keys.push_back(key.start); });
  EXPECT_THAT(keys, ::testing::UnorderedElementsAre(100, 300));
  level.end_busy_period();
  EXPECT_EQ(level.now(), 0) << "what ended latest is set back too";
}

TEST_F(FairLevelTest, ANodeThatIsFarBehindIsSetBackToABound) {
  const RingLock lock(mutex);
  a.fair.key = -(VirtualTime{1} << 61);
  Level::set_back(a, VirtualTime{1} << 61);
  EXPECT_EQ(a.fair.key, -(VirtualTime{1} << 61));
}

TEST_F(FairLevelTest, EveryStridethReadyNodeIsVisited) {
  const RingLock lock(mutex);
  std::vector<Node> nodes(10);
  for (Node& node : nodes) enter(node, 1, kBrief);
  enter(a, 1, kLengthy);
  std::set<const Node*> all;
  level.for_each_ready(1, [&](const Node& node, const FairKey&) { all.insert(&node); });
  EXPECT_EQ(all.size(), 11u);
  int visits = 0;
  level.for_each_ready(4, [&](const Node&, const FairKey&) { ++visits; });
  EXPECT_EQ(visits, 4) << "three of ten, and one of one";
}

TEST_F(FairLevelTest, EachEntryIsAnEpochAndNoneIsZero) {
  const RingLock lock(mutex);
  enter(a);
  EXPECT_EQ(a.fair.epoch, 2u);
  level.set_ready(a, true, kLengthy);
  EXPECT_EQ(a.fair.epoch, 2u) << "it went from one heap to the other";
  level.set_ready(a, false, kBrief);
  a.fair.epoch = ~std::uint32_t{0};
  level.set_ready(a, true, kBrief);
  EXPECT_EQ(a.fair.epoch, 1u);
}

}  // namespace
}  // namespace locksley
