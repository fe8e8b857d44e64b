// Orders to give jobs back that a worker does not answer: leases of other workers are cut instead.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

// Two workers with a lease of one batch each, that of `slow` longer than that of `other`; one job
// of each has taken a second.
class UnansweredCutTest : public WorkerLinkFixture {
 protected:
  void begin(WorkerLink::Id first, WorkerLink::Id second) {
    slow = first;
    other = second;
    host.submit("echo", 200);
    lease = reclaimed(slow, "1 1 0 110");
    shorter = reclaimed(other, "1 1 110 200");
    pass(1s);
    settle(slow, lease, 0);
    settle(other, shorter, 110);
    say(slow, "BEAT");
    say(other, "BEAT");
  }
  // One worker with both leases.
  void begin_alone() {
    slow = joined_with_pushes();
    host.submit("echo", 200);
    lease = reclaimed(slow, "1 1 0 110");
    shorter = reclaimed(slow, "1 1 110 200 SLOT 1");
    pass(1s);
    settle(slow, lease, 0);
    settle(slow, shorter, 110);
  }
  void settle(WorkerLink::Id id, const std::string& of, std::uint64_t index) {
    say(id, "SETTLE " + of + " ok " + std::to_string(index) + " x");
  }
  WorkerLink::Id idle_worker() {
    const WorkerLink::Id id = joined(1);
    EXPECT_EQ(say(id, "CLAIM BLOCK 60000"), "");
    pass(20ms);
    return id;
  }
  std::uint64_t orders() const { return link->stats().cut_orders; }
  static bool is_cut(const std::string& text, const std::string& of) {
    return text.find("$3 CUT $18 " + of) != std::string::npos;
  }
  // Time passes, and all workers are heard.
  void live(Nanoseconds time) {
    for (; time > 0ms; time -= 10ms) {
      link->heard(slow, now);
      link->heard(other, now);
      pass(10ms);
    }
  }

  WorkerLink::Id slow = 0, other = 0;
  std::string lease, shorter;
};

TEST_F(UnansweredCutTest, AnotherWorkerIsAskedAfterAnAnswerWouldHaveCome) {
  begin(joined_with_pushes(), joined_with_pushes());
  const WorkerLink::Id idle = idle_worker();
  EXPECT_TRUE(is_cut(sent(slow), lease));
  live(70ms);
  EXPECT_EQ(sent(other), "") << "the answer may be under way";
  live(40ms);
  EXPECT_TRUE(is_cut(sent(other), shorter));
  EXPECT_EQ(say(other, "YIELD " + shorter + " 190"), ":10");
  EXPECT_EQ(parse(sent(idle)).first, 190U);
}

TEST_F(UnansweredCutTest, AnAnswerTakesLongerThanTenRoundTrips) {
  const WorkerLink::Id first = joined_with_pushes();
  link->note_round_trip(first, 20ms);
  begin(first, joined_with_pushes());
  idle_worker();
  EXPECT_TRUE(is_cut(sent(slow), lease));
  live(900ms);
  EXPECT_EQ(sent(other), "");
  live(100ms);
  EXPECT_TRUE(is_cut(sent(other), shorter)) << "two quanta, of 20 round trips each, and ten round trips";
}

TEST_F(UnansweredCutTest, OtherLeasesOfAWorkerThatDoesNotAnswerArePassedOver) {
  begin(joined_with_pushes(), joined_with_pushes());
  host.submit("echo", 300);
  const std::string longer = reclaimed(slow, "2 1 0 300 SLOT 1");
  pass(1s);
  settle(slow, longer, 0);
  idle_worker();
  EXPECT_TRUE(is_cut(sent(slow), longer));
  live(110ms);
  EXPECT_TRUE(is_cut(sent(other), shorter));
  EXPECT_EQ(sent(slow), "") << "its other lease would end later, but it does not answer";
}

TEST_F(UnansweredCutTest, AWorkerThatDoesNotAnswerIsAskedOnceMoreAfterTheLengthOfALease) {
  begin_alone();
  idle_worker();
  EXPECT_TRUE(is_cut(sent(slow), lease));
  for (std::uint64_t orders_so_far = 1; orders_so_far < 3; ++orders_so_far) {
    EXPECT_EQ(orders(), orders_so_far);
    live(9900ms);
    EXPECT_EQ(sent(slow), "");
    live(100ms);
    EXPECT_TRUE(is_cut(sent(slow), lease)) << "it would still end last";
  }
}

TEST_F(UnansweredCutTest, AWorkerThatDoesNotAnswerIsAskedForAnotherLeaseThatWouldEndLaterByThen) {
  begin_alone();
  idle_worker();
  EXPECT_TRUE(is_cut(sent(slow), lease));
  // It ends those of the first lease that it was asked for, one after the other.
  for (std::uint64_t index = 1; index < 100; ++index) {
    live(100ms);
    settle(slow, lease, index);
  }
  EXPECT_EQ(orders(), 1U);
  live(100ms);
  EXPECT_TRUE(is_cut(sent(slow), shorter));
}

TEST_F(UnansweredCutTest, AWorkerThatHasAnsweredLateIsAskedAgain) {
  begin_alone();
  idle_worker();
  live(200ms);
  EXPECT_EQ(orders(), 1U);
  sent(slow);
  EXPECT_EQ(say(slow, "YIELD " + lease + " 110"), ":0") << "it has begun them all";
  live(20ms);
  EXPECT_TRUE(is_cut(sent(slow), shorter));
}

// Without PUSH: the order comes with the reply to BEAT.

TEST_F(UnansweredCutTest, AWorkerWithoutPushesThatDoesNotAnswerDoesNotKeepOthersFromACut) {
  begin(joined(), joined());
  idle_worker();
  EXPECT_TRUE(is_cut(say(slow, "BEAT"), lease));
  EXPECT_EQ(say(other, "BEAT"), "*0") << "the answer may be under way";
  for (int i = 0; i < 2; ++i) {
    live(100ms);
    EXPECT_TRUE(is_cut(say(slow, "BEAT"), lease)) << "it is told again";
  }
  EXPECT_TRUE(is_cut(say(other, "BEAT"), shorter));
  EXPECT_EQ(orders(), 2U);
}

TEST_F(UnansweredCutTest, AWorkerWithoutPushesThatDoesNotBeatKeepsOthersFromACutForAThirdOfALease) {
  begin(joined(), joined_with_pushes());
  idle_worker();
  EXPECT_EQ(orders(), 1U);
  live(3400ms);
  EXPECT_EQ(sent(other), "");
  live(100ms);
  EXPECT_TRUE(is_cut(sent(other), shorter));
}

TEST_F(UnansweredCutTest, AWorkerWithALongLeaseThatDoesNotBeatKeepsOthersFromACutForFiveSeconds) {
  begin(joined(2, " LEASE 86400000"), joined_with_pushes());
  idle_worker();
  EXPECT_EQ(orders(), 1U);
  live(5s + 100ms);
  EXPECT_TRUE(is_cut(sent(other), shorter));
}

}  // namespace
}  // namespace locksley::daemon::test
