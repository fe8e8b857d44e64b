// One level by itself: nodes, keys and the level's clock.
#include "core/fair/fair_level.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

#include "core/fair/fair_nodes.h"

namespace locksley {
namespace {

struct Node {
  FairNode fair;
};
using Level = FairLevel<Node>;
constexpr JobLength kBrief = JobLength::kBrief;
constexpr JobLength kLengthy = JobLength::kLengthy;

// The right to touch the nodes, without a mutex.
class LOCKSLEY_SCOPED_CAPABILITY
OneThread{public : OneThread() LOCKSLEY_ACQUIRE(kFairNodes){} ~OneThread() LOCKSLEY_RELEASE(){}};

class FairLevelTest : public ::testing::Test {
 protected:
  // A node that is ready, at a key that is not less than the level's virtual time.
  void enter(Node& node, VirtualTime key = 0, JobLength length = kBrief) LOCKSLEY_REQUIRES(kFairNodes) {
    node.fair.key = key;
    level.set_ready(node, true, length);
  }
  // A whole turn that was expected to cost `expected` and cost `actual`.
  void turn(Node& node, std::int64_t expected, std::int64_t actual) LOCKSLEY_REQUIRES(kFairNodes) {
    const VirtualTime charged = charge(node, expected);
    level.settle(node, charged, false, actual);
    level.set_ready(node, true, node.fair.length);
  }
  // As the ring charges a node: at the least start of all that are ready.
  VirtualTime charge(Node& node, std::int64_t expected) LOCKSLEY_REQUIRES(kFairNodes) {
    clock.now = std::max(clock.now, level.time_to_pass());
    return level.charge(node, expected);
  }
  FairClock clock;
  Level level{clock};
  Node a, b;
};

TEST_F(FairLevelTest, ANodeIsReadyWhileItIsInAHeap) {
  const OneThread access;
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
  const OneThread access;
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
  const OneThread access;
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
  const OneThread access;
  a.fair.weight = 4;
  enter(a, 100);
  EXPECT_EQ(charge(a, 9), 3);
  EXPECT_EQ(a.fair.key, 103);
  EXPECT_EQ(a.fair.executors, 1u);
  level.settle(a, 3, false, 9);
  EXPECT_EQ(a.fair.key, 102);
  EXPECT_EQ(a.fair.remainder, 1u);
  EXPECT_EQ(a.fair.executors, 0u);
}

TEST_F(FairLevelTest, WhatDoesNotFillAWeightIsPaidWithTheNextTurn) {
  const OneThread access;
  a.fair.weight = 4;
  enter(a);
  for (int i = 0; i < 8; ++i) turn(a, 0, 3);
  EXPECT_EQ(a.fair.key, 6);
  EXPECT_EQ(a.fair.remainder, 0u);
}

TEST_F(FairLevelTest, TheVirtualTimeIsTheGreatestKeyThatWasServed) {
  const OneThread access;
  Node c;
  enter(a, 10);
  enter(c, 12);
  charge(a, 5);
  EXPECT_EQ(level.now(), 10);
  level.set_ready(a, true, kBrief);
  charge(c, 5);
  level.set_ready(c, true, kBrief);
  charge(a, 5);
  EXPECT_EQ(level.now(), 15);
  enter(b, 3);
  EXPECT_EQ(b.fair.key, 15) << "being away earns nothing";
}

TEST_F(FairLevelTest, WithOneNodeReadyTheVirtualTimeDoesNotCountChargesThatAreNotSettled) {
  const OneThread access;
  enter(a, 10);
  const VirtualTime first = charge(a, 5);
  level.set_ready(a, true, kBrief);
  VirtualTime second = charge(a, 5);
  EXPECT_EQ(level.now(), 10) << "nothing tells whether the first turn will cost 5";
  second = Level::charge_so_far(a.fair, second, false, 7);
  EXPECT_EQ(a.fair.pending, 12);
  level.settle(a, first, false, 4);
  EXPECT_EQ(a.fair.pending, 7);
  charge(a, 5);
  EXPECT_EQ(level.now(), 14) << "it has cost 4";
  level.set_ready(a, false, kBrief);
  level.set_ready(a, true, kBrief);
  EXPECT_EQ(a.fair.pending, 0);
  EXPECT_EQ(a.fair.pending_before, 12);
  charge(a, 6);
  EXPECT_EQ(level.now(), 14) << "a new entry makes no difference";
  level.settle(a, second, true, 9);
  EXPECT_EQ(a.fair.pending_before, 5);
  charge(a, 6);
  EXPECT_EQ(level.now(), 23);
  level.start_anew(a);
  EXPECT_EQ(a.fair.settled_key(), 23) << "settlements of earlier turns do not change its key";
  EXPECT_EQ(a.fair.pending_before, 17);
}

TEST_F(FairLevelTest, APreferredNodeDoesNotMoveTheClockPastTheOthers) {
  const OneThread access;
  enter(a, 100, kBrief);
  enter(b, 20, kLengthy);
  charge(a, 5);
  EXPECT_EQ(level.now(), 20);
}

TEST_F(FairLevelTest, AnExcessIsForgivenUnlessItIsCleared) {
  const OneThread access;
  enter(a, 100);
  level.note_excess(30);
  level.forgive_excess();
  EXPECT_EQ(level.top_time(), 70);
  level.note_excess(30);
  level.clear_excess();
  level.forgive_excess();
  EXPECT_EQ(level.top_time(), 70);
}

TEST_F(FairLevelTest, AnAbsurdServiceCountsAsTheGreatest) {
  const OneThread access;
  enter(a);
  EXPECT_EQ(charge(a, std::numeric_limits<std::int64_t>::max()), Level::kMostService);
}

TEST_F(FairLevelTest, AnEstimateTakenBackAfterANewEntryNeverBringsANodeBelowTheVirtualTime) {
  const OneThread access;
  enter(a, 0);
  enter(b, 0);
  const VirtualTime charged = charge(a, 1000);
  level.set_ready(a, false, kBrief);
  for (int i = 0; i < 3; ++i) turn(b, 100, 100);
  EXPECT_EQ(level.now(), 200);
  level.set_ready(a, true, kBrief);  // at its own finish, 1000: 800 ahead
  EXPECT_EQ(a.fair.key, 1000);
  level.settle(a, charged, true, 10);
  EXPECT_EQ(a.fair.key, 200) << "its own finish is 10, which is behind the virtual time it entered at";
}

TEST_F(FairLevelTest, AnEstimateThatWasTooSmallIsPaidAfterANewEntryToo) {
  const OneThread access;
  enter(a, 0);
  const VirtualTime charged = charge(a, 100);
  level.set_ready(a, false, kBrief);
  level.set_ready(a, true, kBrief);
  level.settle(a, charged, true, 300);
  EXPECT_EQ(a.fair.key, 300);
}

TEST_F(FairLevelTest, TheCompetingWeightIsTheSumOfThoseThatCompete) {
  const OneThread access;
  a.fair.weight = 3;
  b.fair.weight = 5;
  clock.set_competes(a.fair, true);
  clock.set_competes(b.fair, true);
  clock.set_competes(b.fair, true);
  EXPECT_EQ(clock.competing_weight, 8u);
  clock.set_weight(b.fair, 2);
  EXPECT_EQ(clock.competing_weight, 5u);
  clock.set_competes(a.fair, false);
  EXPECT_EQ(clock.competing_weight, 2u);
  clock.set_weight(a.fair, 7);
  EXPECT_EQ(clock.competing_weight, 2u) << "it does not compete";
  EXPECT_EQ(a.fair.weight, 7u);
}

TEST_F(FairLevelTest, ANewWeightScalesTheServiceThatIsNotPaidYet) {
  const OneThread access;
  a.fair.weight = 10;
  a.fair.remainder = 6;
  clock.set_weight(a.fair, 5);
  EXPECT_EQ(a.fair.remainder, 3u);
  clock.set_weight(a.fair, 20);
  EXPECT_EQ(a.fair.remainder, 12u);
}

TEST_F(FairLevelTest, TheEndOfABusyPeriodForgivesWhatAnyoneIsAhead) {
  const OneThread access;
  enter(a, 0);
  turn(a, 500, 500);
  level.set_ready(a, false, kBrief);
  clock.end_busy_period();
  EXPECT_EQ(level.now(), 500);
  enter(b, 0);
  EXPECT_EQ(b.fair.key, 500);
}

TEST_F(FairLevelTest, SettingTheClockBackKeepsTheOrderAndTheDistances) {
  const OneThread access;
  enter(a, 1000, kBrief);
  enter(b, 1300, kLengthy);
  charge(a, 100);
  level.set_ready(a, true, kBrief);
  level.set_back();
  EXPECT_EQ(clock.set_back(), 1000);
  EXPECT_EQ(level.now(), 0);
  level.set_back(a);
  level.set_back(b);
  EXPECT_EQ(a.fair.key, 100);
  EXPECT_EQ(b.fair.key, 300);
  std::vector<VirtualTime> keys;
  level.for_each_ready(1, [&](const Node&, const FairKey& key) { keys.push_back(key.start); });
  EXPECT_THAT(keys, ::testing::UnorderedElementsAre(100, 300));
  clock.end_busy_period();
  EXPECT_EQ(level.now(), 0) << "what ended latest is set back too";
}

TEST_F(FairLevelTest, ANodeThatIsFarBehindIsSetBackToABound) {
  const OneThread access;
  const VirtualTime far = VirtualTime{1} << 61;
  EXPECT_EQ(Level::set_back(-far, far), -far);
}

TEST_F(FairLevelTest, EveryStridethReadyNodeIsVisited) {
  const OneThread access;
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

TEST_F(FairLevelTest, EachEntryHasANumberAndAMoveBetweenTheHeapsIsNone) {
  const OneThread access;
  enter(a);
  const std::uint64_t entry = a.fair.entry;
  EXPECT_GT(entry, 0U);
  level.set_ready(a, true, kLengthy);
  EXPECT_EQ(a.fair.entry, entry) << "it went from one heap to the other";
  level.set_ready(a, false, kBrief);
  level.set_ready(a, true, kBrief);
  EXPECT_GT(a.fair.entry, entry);
}

TEST_F(FairLevelTest, ALevelThatCouldNotBeServedFollowsTheClockAsAWhole) {
  const OneThread access;
  enter(a, 10);
  enter(b, 40);
  clock.now = 100;
  level.follow(70);
  EXPECT_EQ(level.top_time(), 80) << "it was 20 behind when the time began in which it could not be served";
  EXPECT_EQ(level.time_of(b.fair.key), 110) << "the distances remain";
  EXPECT_EQ(level.now(), 30);
  level.follow(70);
  EXPECT_EQ(level.top_time(), 100) << "no further than the clock";
  EXPECT_EQ(level.shifts(), 2U);
  level.follow(70);
  EXPECT_EQ(level.shifts(), 2U);
  level.set_ready(a, false, kBrief);
  level.set_ready(b, false, kBrief);
  level.follow(70);
  EXPECT_EQ(level.shifts(), 2U) << "nobody waits";
}

TEST_F(FairLevelTest, ALevelMovesBackToTheClockAndNoFurther) {
  const OneThread access;
  enter(a, 30);
  enter(b, 50);
  level.move_back(20);
  EXPECT_EQ(level.top_time(), 10);
  level.move_back(20);
  EXPECT_EQ(level.top_time(), 0);
  EXPECT_EQ(level.time_of(b.fair.key), 20);
  level.move_back(20);
  EXPECT_EQ(level.top_time(), 0);
  EXPECT_EQ(level.shifts(), 2U);
}

TEST_F(FairLevelTest, OfALevelWhereNobodyWaitsTheNodesMoveBackWithTheOthers) {
  const OneThread access;
  enter(a, 30);
  level.set_ready(a, false, kBrief);
  level.move_back(20);
  EXPECT_EQ(level.time_of(a.fair.key), 10);
  level.move_back(20);
  level.set_ready(a, true, kBrief);
  EXPECT_EQ(level.top_time(), 0) << "a node that comes is not behind the clock";
}

TEST_F(FairLevelTest, ALeadThatWasForgivenIsRestoredForEarlierTurnsUpToTheClock) {
  const OneThread access;
  enter(a, 100);
  level.forgive_lead(60, Nanoseconds{5});
  EXPECT_EQ(level.top_time(), 40);
  EXPECT_EQ(level.wrongly_forgiven(Nanoseconds{5}), 0) << "it is not behind the clock";
  a.fair.key -= 90;
  level.update(a);
  EXPECT_EQ(level.top_time(), -50);
  EXPECT_EQ(level.wrongly_forgiven(Nanoseconds{6}), 0) << "the turn began later";
  EXPECT_EQ(level.wrongly_forgiven(Nanoseconds{5}), 50);
  level.restore_lead(50, Nanoseconds{6});
  EXPECT_EQ(level.top_time(), -50);
  level.restore_lead(50, Nanoseconds{5});
  EXPECT_EQ(level.top_time(), 0);
  level.restore_lead(50, Nanoseconds{5});
  EXPECT_EQ(level.top_time(), 10) << "no more than was forgiven";
}

TEST_F(FairLevelTest, ExcessIsForgivenUpToTheClockAndTheRestLater) {
  const OneThread access;
  level.change_weight(1);
  enter(a, 30);
  level.note_excess(50);
  level.forgive_excess();
  EXPECT_EQ(level.top_time(), 0);
  a.fair.key += 100;
  level.update(a);
  level.forgive_excess();
  EXPECT_EQ(level.top_time(), 80);
}

}  // namespace
}  // namespace locksley
