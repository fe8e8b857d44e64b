// What happens when something fails, or time passes: the rows of the table of events.
// Length: some short tests for each of them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

using testing::Row;
using testing::rows_of;
using WorkerLinkEventsTest = WorkerLinkFixture;

TEST_F(WorkerLinkEventsTest, AClosedConnectionGivesItsJobsToAWorkerThatWaits) {
  const WorkerLink::Id id = joined(), other = joined();
  host.submit("echo", 1);
  ASSERT_TRUE(claim(id));
  EXPECT_EQ(say(other, "CLAIM BLOCK 60000"), "");
  link->disconnect(id, now);
  EXPECT_EQ(parse(sent(other)).first, 0U);
  EXPECT_EQ(link->stats().lost_by_disconnect, 1U);
  EXPECT_EQ(link->stats().workers, 1U);
}

TEST_F(WorkerLinkEventsTest, TheThirdLossEndsTheFirstJobAndNoOther) {
  BatchOptions options;
  options.retries = 5;
  const auto batch = host.submit("echo", 4, options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(batch->status().failed, 0U);
    const WorkerLink::Id id = joined();
    const std::string lease = split(say(id, "CLAIM"))[2];
    link->disconnect(id, now);
  }
  EXPECT_EQ(rows_of(*batch), (std::vector<Row>{{0, JobStatus::kCrashed, "lost with its worker 3 times"}}));
  EXPECT_EQ(batch->status().retried, 0U) << "losses use up no retries";
  EXPECT_EQ(ring().queued, 3U);
  EXPECT_EQ(link->stats().lost_by_disconnect, 3U);
}

TEST_F(WorkerLinkEventsTest, AJobOfALeaseThatWaitedIsInnocent) {
  const WorkerLink::Id id = joined(1);
  host.submit("echo", 10);
  ASSERT_TRUE(claim(id, "JOBS 1"));
  ASSERT_TRUE(claim(id, "JOBS 1"));
  link->disconnect(id, now);
  EXPECT_EQ(link->stats().lost_by_disconnect, 1U);
}

TEST_F(WorkerLinkEventsTest, AWorkerThatComesBackTakesItsLossesBack) {
  const auto batch = host.submit("echo", 1);
  WorkerLink::Id id = joined();
  ASSERT_TRUE(claim(id));
  for (int i = 0; i < 10; ++i) {
    link->disconnect(id, now);
    id = joined();
    ASSERT_FALSE(reclaimed(id, "1 1 0 1").empty()) << i;
  }
  EXPECT_EQ(batch->status().failed, 0U);
}

TEST_F(WorkerLinkEventsTest, TwoSecondsAfterItsTimeOutAJobEndsAndTheRestGoesBack) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 6, options);
  const WorkerLink::Id id = joined(1, " LEASE 60000");
  const std::string lease = reclaimed(id, "1 1 0 6");
  pass(4s);
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 0 x"), "*2 :1 :5");
  pass(6999ms);
  EXPECT_EQ(batch->status().failed, 0U) << "the time counts from the job before it";
  pass(1ms);
  EXPECT_EQ(batch->status().failed, 1U);
  EXPECT_EQ(rows_of(*batch).back().status, JobStatus::kTimeout);
  EXPECT_EQ(rows_of(*batch).back().index, 1U);
  EXPECT_EQ(ring().queued, 4U);
  EXPECT_EQ(link->stats().timed_out, 1U);
  EXPECT_EQ(say(id, "BEAT " + lease + " 2"), "*1 *2 $4 STOP $18 " + lease);
}

TEST_F(WorkerLinkEventsTest, AJobThatHasNotStartedDoesNotTimeOut) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 6, options);
  const WorkerLink::Id id = joined(2, " LEASE 60000");
  const std::string lease = reclaimed(id, "1 1 0 6 WIDTH 2");
  EXPECT_EQ(say(id, "BEAT " + lease + " 1"), "*0");
  pass(7s);
  EXPECT_EQ(batch->status().failed, 1U);
  EXPECT_EQ(ring().queued, 5U);
}

TEST_F(WorkerLinkEventsTest, ATimeOutCountsFromTheLastBeatThatSaysThatNoJobHasBegun) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 6, options);
  const WorkerLink::Id id = joined(1, " LEASE 60000");
  const std::string lease = reclaimed(id, "1 1 0 6");
  for (int i = 0; i < 10; ++i) {
    pass(6s);
    EXPECT_EQ(say(id, "BEAT " + lease + " 0"), "*0");
  }
  pass(1s);
  EXPECT_EQ(say(id, "BEAT " + lease + " 1"), "*0") << "the first job has begun";
  pass(5999ms);
  EXPECT_EQ(batch->status().failed, 0U);
  pass(1ms);
  EXPECT_EQ(batch->status().failed, 1U);
  EXPECT_EQ(ring().queued, 5U);
}

TEST_F(WorkerLinkEventsTest, AJobMayTakeTheGraceOfItsWorkerToEnd) {
  BatchOptions options;
  options.timeout = 1s;
  const auto batch = host.submit("echo", 2, options);
  const WorkerLink::Id id = joined(1, " LEASE 60000 GRACE 5000");
  const Granted first = claim(id, "JOBS 1");
  pass(7'999ms);
  EXPECT_EQ(settle_all(id, first, "timeout"), "*2 :1 :0");
  ASSERT_TRUE(claim(id, "JOBS 1"));
  pass(7'999ms);
  EXPECT_EQ(link->stats().timed_out, 0U);
  pass(1ms);
  EXPECT_EQ(link->stats().timed_out, 1U);
}

TEST_F(WorkerLinkEventsTest, AJobThatHangsTimesOutThoughItsWorkerRunsOtherLeasesOnTheSlot) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 1, options);
  host.submit("echo", 100);
  const WorkerLink::Id id = joined(1, " LEASE 60000");
  const std::string hangs = reclaimed(id, "1 1 0 1");
  EXPECT_EQ(say(id, "BEAT " + hangs + " 1"), "*0");
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(batch->status().failed, 0U);
    settle_all(id, claim(id, "JOBS 1"));
    pass(1s);
  }
  EXPECT_EQ(batch->status().failed, 1U);
}

TEST_F(WorkerLinkEventsTest, AJobIsNotLateWhileACommandComesThatMayHaveItsResult) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 2, options);
  const WorkerLink::Id id = joined();
  const Granted lease = claim(id, "JOBS 1");
  pass(6s);
  link->heard(id, now);
  link->has_unfinished(id, now);
  for (int i = 0; i < 10; ++i) {
    pass(1s);
    link->heard(id, now);
    link->has_unfinished(id, now);
  }
  EXPECT_EQ(batch->status().failed, 0U);
  EXPECT_EQ(settle_all(id, lease), "*2 :1 :0");
  EXPECT_EQ(batch->status().ok, 1U);

  ASSERT_TRUE(claim(id, "JOBS 1"));
  pass(6s);
  link->heard(id, now);
  link->has_unfinished(id, now);
  pass(1999ms);
  EXPECT_EQ(batch->status().failed, 0U);
  pass(1ms);
  EXPECT_EQ(batch->status().failed, 1U) << "no byte has come for two seconds";
}

// Each slot's result takes four seconds to come, behind those of the other slots. The part of the
// next one comes with the end of the one before, or a moment later.
TEST_F(WorkerLinkEventsTest, NoJobIsLateWhileResultsComeOneAfterTheOther) {
  BatchOptions options;
  options.timeout = 1s;
  const auto batch = host.submit("echo", 5, options);
  const WorkerLink::Id id = joined(5, " LEASE 60000");
  std::vector<Granted> leases;
  for (int slot = 0; slot < 5; ++slot) leases.push_back(claim(id, "JOBS 1"));
  pass(500ms);
  for (std::size_t slot = 0; slot < 4; ++slot) {
    link->has_unfinished(id, now);
    for (int i = 0; i < 4; ++i) {
      pass(1s);
      link->heard(id, now);
      link->has_unfinished(id, now);
    }
    EXPECT_EQ(settle_all(id, leases[slot]), "*2 :1 :0") << slot;
    pass(500ms);
  }
  EXPECT_EQ(batch->status().ok, 4U);
  pass(1'499ms);
  EXPECT_EQ(batch->status().failed, 0U);
  pass(1ms);
  EXPECT_EQ(batch->status().failed, 1U) << "nothing has come for two seconds after the last result";
}

TEST_F(WorkerLinkEventsTest, EndlessCommandsDelayATimeOutByHalfAMinute) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 1, options);
  const WorkerLink::Id id = joined();
  ASSERT_TRUE(claim(id));
  for (int i = 0; i < 37; ++i) {
    EXPECT_EQ(batch->status().failed, 0U) << i;
    link->has_unfinished(id, now);
    pass(500ms);
    say(id, "BEAT");
    pass(500ms);
  }
  EXPECT_EQ(batch->status().failed, 1U);
}

TEST_F(WorkerLinkEventsTest, AnEndlessCommandDelaysATimeOutByHalfAMinute) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 1, options);
  const WorkerLink::Id id = joined();
  ASSERT_TRUE(claim(id));
  link->has_unfinished(id, now);
  for (int i = 0; i < 36; ++i) {
    pass(1s);
    link->heard(id, now);
    link->has_unfinished(id, now);
  }
  EXPECT_EQ(batch->status().failed, 0U);
  pass(1s);
  EXPECT_EQ(batch->status().failed, 1U);
}

TEST_F(WorkerLinkEventsTest, ACommandThatBeginsToComeAfterwardsDelaysNoTimeOut) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 1, options);
  const WorkerLink::Id id = joined();
  ASSERT_TRUE(claim(id));
  now += 8s;
  link->has_unfinished(id, now);
  link->advance(now);
  EXPECT_EQ(batch->status().failed, 1U);
}

TEST_F(WorkerLinkEventsTest, ALeaseThatWaitedBeginsWithTheEndOfTheOther) {
  const WorkerLink::Id id = joined(1);
  const auto batch = host.submit("echo", 10);
  const Granted first = claim(id, "JOBS 1"), second = claim(id, "JOBS 1");
  EXPECT_EQ(batch->status().running, 1U);
  settle_all(id, first);
  EXPECT_EQ(batch->status().running, 1U);
  settle_all(id, second);
  EXPECT_EQ(batch->status().running, 0U);
}

TEST_F(WorkerLinkEventsTest, WithoutATimeOutALeaseLastsAsLongAsItsWorkerIsHeard) {
  host.submit("echo", 1);
  const WorkerLink::Id id = joined();
  ASSERT_TRUE(claim(id));
  for (int i = 0; i < 1000; ++i) {
    pass(9s);
    say(id, "BEAT");
  }
  EXPECT_EQ(link->stats().leases, 1U);
}

// A lease of 100 jobs, one of which has taken a second, and a worker that waits.
class CutTest : public WorkerLinkFixture {
 protected:
  void begin(WorkerLink::Id id) {
    slow = id;
    host.submit("echo", 100);
    lease = reclaimed(slow, "1 1 0 100");
    pass(1s);
    say(slow, "SETTLE " + lease + " ok 0 x");
  }
  WorkerLink::Id slow = 0;
  std::string lease;
};

TEST_F(CutTest, TheSlowestLeaseIsCutInTheMiddleOfWhatHasNotStarted) {
  begin(joined());
  EXPECT_EQ(say(slow, "BEAT " + lease + " 11"), "*0") << "no worker waits";
  const WorkerLink::Id idle = joined();
  EXPECT_EQ(say(idle, "CLAIM BLOCK 60000"), "");
  pass(20ms);
  EXPECT_EQ(say(slow, "BEAT " + lease + " 11"), "*1 *3 $3 CUT $18 " + lease + " :55");
  EXPECT_EQ(say(slow, "YIELD " + lease + " 55"), ":45");
  EXPECT_EQ(parse(sent(idle)).first, 55U);
  EXPECT_EQ(link->stats().cut_orders, 1U);
  EXPECT_EQ(say(slow, "BEAT " + lease + " 12"), "*0");
}

TEST_F(CutTest, AWorkerWithPushesIsToldAtOnce) {
  begin(joined_with_pushes());
  const WorkerLink::Id idle = joined();
  pass(20ms);
  EXPECT_EQ(say(idle, "CLAIM BLOCK 60000"), "");
  EXPECT_EQ(sent(slow), ">3 $3 CUT $18 " + lease + " :51") << "job 1 runs, 98 have not started";
  pass(1s);
  EXPECT_EQ(sent(slow), "") << "once";
  EXPECT_EQ(say(slow, "BEAT"), "*0") << "not again in the reply";
}

TEST_F(CutTest, NothingIsCutThatIsWorthLess) {
  begin(joined_with_pushes());
  const WorkerLink::Id idle = joined();
  say(slow, "YIELD " + lease + " 2");
  while (const Granted rest = claim(idle, "SLOT 0")) settle_all(idle, rest);
  EXPECT_EQ(say(idle, "CLAIM BLOCK 60000"), "");
  pass(20ms);
  EXPECT_EQ(sent(slow), "") << "the one job that is left runs";
}

TEST_F(CutTest, ALongRoundTripMakesCutsRare) {
  begin(joined_with_pushes());
  const WorkerLink::Id idle = joined();
  link->note_round_trip(slow, 10s);
  pass(20ms);
  say(idle, "CLAIM BLOCK 60000");
  EXPECT_EQ(sent(slow), "") << "ten round trips last longer than the 99 s that are left";
}

TEST_F(CutTest, AWorkerWhoseSlotsAreBusyGetsNoCut) {
  begin(joined_with_pushes());
  host.submit("echo", 1);
  const WorkerLink::Id busy = joined(1);
  ASSERT_TRUE(claim(busy, "JOBS 1"));
  EXPECT_EQ(say(busy, "CLAIM BLOCK 60000"), "") << "it only wants to be early";
  pass(20ms);
  EXPECT_EQ(sent(slow), "");
}

TEST_F(CutTest, AnIdleSlotOfAWorkerWithPushesCountsWhicheverTheClaimNames) {
  begin(joined_with_pushes());
  const auto wait_early = [this](WorkerLink::Id id) {
    host.submit("echo", 1);
    ASSERT_TRUE(claim(id, "SLOT 0 JOBS 1"));
    EXPECT_EQ(say(id, "CLAIM SLOT 0 BLOCK 60000"), "");
    pass(20ms);
  };
  wait_early(joined());
  EXPECT_EQ(sent(slow), "") << "one without pushes may mean to use slot 0 alone";
  wait_early(joined_with_pushes());
  EXPECT_EQ(sent(slow).find(">3 $3 CUT"), 0U);
}

TEST_F(CutTest, WhoHasNothingToDoIsServedBeforeWhoOnlyWantsToBeEarly) {
  host.submit("echo", 1);
  const WorkerLink::Id early = joined(1), idle = joined(1);
  ASSERT_TRUE(claim(early, "JOBS 1"));
  EXPECT_EQ(say(early, "CLAIM BLOCK 60000"), "");
  EXPECT_EQ(say(idle, "CLAIM BLOCK 60000"), "");
  host.submit("echo", 1);
  link->wake(now);
  EXPECT_EQ(sent(early), "");
  EXPECT_TRUE(parse(sent(idle)));
}

// A worker whose one slot has run a job for 5 s, with a lease of one job behind it.
class CutOfOneJobTest : public WorkerLinkFixture {
 protected:
  void begin(WorkerLink::Id id) {
    slow = id;
    host.submit("echo", 2);
    running = reclaimed(slow, "1 1 0 1");
    ready = reclaimed(slow, "1 1 1 2");
    pass(5s);
    say(slow, "BEAT");
  }
  WorkerLink::Id slow = 0;
  std::string running, ready;
};

TEST_F(CutOfOneJobTest, ALeaseThatWaitsGoesToASlotThatRunsItAndStaysThere) {
  begin(joined_with_pushes(1));
  const WorkerLink::Id idle = joined(1), other = joined(1);
  EXPECT_EQ(say(idle, "CLAIM BLOCK 60000"), "");
  EXPECT_EQ(sent(slow), ">3 $3 CUT $18 " + ready + " :1");
  EXPECT_EQ(say(slow, "YIELD " + ready + " 1"), ":1");
  EXPECT_EQ(say(slow, "CLAIM BLOCK 60000"), "") << "nothing is left for it to have early";
  EXPECT_EQ(parse(sent(idle)).first, 1U);
  EXPECT_EQ(link->stats().leases, 2U);
  EXPECT_EQ(say(other, "CLAIM BLOCK 60000"), "");
  pass(5s);
  EXPECT_EQ(say(idle, "BEAT"), "*0");
  pass(20ms);
  EXPECT_EQ(link->stats().cut_orders, 1U) << "both jobs run";
}

TEST_F(CutOfOneJobTest, ItDoesNotMoveToWaitBehindAnotherJob) {
  begin(joined_with_pushes(1));
  const WorkerLink::Id other = joined_with_pushes(2);
  host.submit("echo", 1);
  ASSERT_TRUE(claim(other, "SLOT 0 JOBS 1"));
  EXPECT_EQ(say(other, "CLAIM SLOT 0 BLOCK 60000"), "");
  pass(20ms);
  EXPECT_EQ(sent(slow), "");
  say(other, "CLAIM SLOT 1 BLOCK 60000");
  pass(20ms);
  EXPECT_EQ(sent(slow), ">3 $3 CUT $18 " + ready + " :1");
}

TEST_F(CutOfOneJobTest, ACutThatComesAfterTheJobHasBegunMakesWayForAnother) {
  begin(joined(1));
  host.submit("echo", 100);
  const WorkerLink::Id other = joined_with_pushes(1), idle = joined(1);
  const std::string lease = reclaimed(other, "2 1 0 100");
  pass(30ms);
  say(other, "SETTLE " + lease + " ok 0 x");
  EXPECT_EQ(say(idle, "CLAIM BLOCK 60000"), "");
  EXPECT_EQ(link->stats().cut_orders, 1U);
  EXPECT_EQ(sent(other), "") << "3 s to go, and the other one has 5 s";
  say(slow, "SETTLE " + running + " ok 0 x");
  pass(20ms);
  EXPECT_EQ(sent(other).find(">3 $3 CUT"), 0U);
}

TEST_F(CutTest, AWorkerThatNeverBeatsIsNotAsked) {
  begin(joined());
  const WorkerLink::Id idle = joined();
  say(idle, "CLAIM BLOCK 60000");
  pass(20ms);
  EXPECT_EQ(link->stats().cut_orders, 0U);
}

TEST_F(WorkerLinkEventsTest, ACancelledBatchIsStoppedAndAPausedOneCut) {
  const WorkerLink::Id id = joined(2), pushed = joined_with_pushes(2);
  const auto batch = host.submit("echo", 20);
  const std::string lease = reclaimed(id, "1 1 0 10"), other = reclaimed(pushed, "1 1 10 20");
  Lane& lane = *host.lane_of("echo");
  lane.pause(*batch);
  EXPECT_EQ(say(id, "BEAT " + lease + " 3"), "*1 *3 $3 CUT $18 " + lease + " :3");
  link->check_batches(now);
  EXPECT_EQ(sent(pushed), ">3 $3 CUT $18 " + other + " :11");
  EXPECT_EQ(say(id, "YIELD " + lease + " 3"), ":7");
  lane.cancel(*batch, "why");
  EXPECT_EQ(say(id, "BEAT"), "*1 *2 $4 STOP $18 " + lease);
  link->check_batches(now);
  EXPECT_EQ(sent(pushed), ">2 $4 STOP $18 " + other);
  link->check_batches(now);
  EXPECT_EQ(sent(pushed), "");
  say(id, "SETTLE " + lease + " cancelled 0 x x x");
  say(pushed, "YIELD " + other);
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().cancelled, 20U);
}

TEST_F(WorkerLinkEventsTest, ADrainEndsClaimsAndTellsAll) {
  const WorkerLink::Id id = joined(), pushed = joined_with_pushes(), idle = joined();
  host.submit("echo", 4);
  const Granted lease = claim(id);
  const std::string wide = reclaimed(pushed, "1 1 1 4");
  EXPECT_EQ(say(idle, "CLAIM BLOCK 1000"), "");
  link->drain(now);
  EXPECT_EQ(sent(idle), "$-1");
  EXPECT_EQ(sent(pushed), ">1 $5 DRAIN >3 $3 CUT $18 " + wide + " :2");
  EXPECT_EQ(say(id, "BEAT"), "*1 *1 $5 DRAIN");
  EXPECT_EQ(say(id, "CLAIM"), "-DRAINING the daemon is about to stop");
  EXPECT_EQ(say(connect(), "JOIN w SLOTS 1 HANDLERS echo"), "-DRAINING the daemon is about to stop");
  EXPECT_EQ(settle_all(id, lease), "*2 :1 :0") << "what runs ends as usual";
}

TEST_F(WorkerLinkEventsTest, AfterARecoveryJobsWaitForThoseWhoRunThem) {
  restart({.has_recovered = true});
  const WorkerLink::Id id = joined(), other = joined();
  host.submit("echo", 10);
  EXPECT_EQ(say(other, "CLAIM BLOCK 60000"), "");
  pass(2999ms);
  EXPECT_EQ(sent(other), "");
  EXPECT_FALSE(reclaimed(id, "1 1 0 5").empty());
  pass(1ms);
  EXPECT_EQ(parse(sent(other)).first, 5U);
}

TEST_F(WorkerLinkEventsTest, ARestartOfTheDaemonMakesAttemptsOneHigher) {
  restart({.has_recovered = true});
  const auto batch = std::make_shared<Batch>(BatchOptions{}, host.served.at("echo")->handler,
                                             std::make_unique<RangePayloads>(0));
  BatchHistory history;
  history.jobs = 10;
  history.closed = true;
  history.attempt = 2;
  batch->restore(history);
  host.batches[1] = batch;
  const IndexRange all{0, 10};
  host.lane_of("echo")->enqueue(batch, {&all, 1}, /*open=*/false);
  const WorkerLink::Id id = joined();
  EXPECT_EQ(say(id, "RECLAIM 1 1 0 5"), "*3 $18 000000000000002b-1 *1 *2 :0 :5 :2")
      << "leased by the earlier process, as attempt 1";
  link->disconnect(id, now);
  pass(3s);
  const WorkerLink::Id again = joined();
  EXPECT_FALSE(reclaimed(again, "1 2 0 5").empty()) << "with the attempt that the reply had";
  EXPECT_EQ(say(again, "RECLAIM 1 1 5 10"), "-LOST none of these jobs is queued for this attempt")
      << "the time for that is over";
}

TEST_F(WorkerLinkEventsTest, WhatIsOutIsBounded) {
  restart({.max_leased_bytes = 500});  // half of it is for one user
  const WorkerLink::Id id = joined(8);
  host.submit("echo", 10, {},
              std::make_unique<StringPayloads>(std::vector<std::string>(10, std::string(100, 'p'))));
  std::vector<Granted> leases;
  while (const Granted lease = claim(id, "JOBS 1")) leases.push_back(lease);
  EXPECT_EQ(leases.size(), 3U) << "the lease with which the limit is reached is the last";
  EXPECT_EQ(say(id, "CLAIM BLOCK 1000"), "");
  settle_all(id, leases.front());
  EXPECT_TRUE(claim(id, "JOBS 1"));
}

TEST_F(WorkerLinkEventsTest, WhileTheStoreHasNoRoomNothingIsClaimedOrRead) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  host.room = false;
  EXPECT_FALSE(link->accepts_commands(id));
  EXPECT_EQ(say(id, "CLAIM BLOCK 1000"), "");
  host.room = true;
  link->wake(now);
  EXPECT_TRUE(link->accepts_commands(id));
  EXPECT_TRUE(parse(sent(id)));
}

// The owner learns of it although the store has room again when it looks.
TEST_F(WorkerLinkEventsTest, AClaimThatFoundNoRoomIsRememberedUntilTheNextWake) {
  const WorkerLink::Id id = joined();
  ASSERT_EQ(say(id, "CLAIM BLOCK 1000"), "");
  EXPECT_FALSE(link->lacks_room());
  host.room = false;
  host.submit("echo", 1);
  link->wake(now);
  host.room = true;
  EXPECT_TRUE(link->lacks_room());
  EXPECT_EQ(sent(id), "");
  link->wake(now);
  EXPECT_FALSE(link->lacks_room());
  EXPECT_TRUE(parse(sent(id)));
}

TEST_F(WorkerLinkEventsTest, RepliesThatWaitAreBounded) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 2'000);
  const std::string lease = reclaimed(id, "1 1 0 2000");
  std::uint64_t settled = 0;
  while (link->accepts_commands(id)) {
    host.writes = settled + 1;
    ASSERT_LT(settled, 2'000U);
    say(id, "SETTLE " + lease + " ok " + std::to_string(settled++) + " x");
  }
  EXPECT_EQ(settled, WorkerConnections::kMostHeld);
}

TEST_F(WorkerLinkEventsTest, RepliesThatWaitBehindAnotherAreBoundedInBytes) {
  const WorkerLink::Id id = joined();
  constexpr std::size_t kPayload = 1024 * 1024;
  host.submit("echo", 3, {},
              std::make_unique<StringPayloads>(std::vector<std::string>(3, std::string(kPayload, 'p'))));
  const std::string lease = reclaimed(id, "1 1 0 2");
  for (std::uint64_t job = 0; job < 2; ++job) {
    host.writes = job + 1;
    EXPECT_EQ(say(id, "SETTLE " + lease + " ok " + std::to_string(job) + " x"), "") << "the store is slow";
  }
  // It gives back what it claims: the payload is in a reply that waits.
  std::size_t claims = 0;
  while (link->accepts_commands(id)) {
    ASSERT_LT(claims, 100U);
    say(id, "CLAIM");
    say(id, "YIELD 000000000000002a-" + std::to_string(++claims + 1));
  }
  EXPECT_EQ(claims, WorkerConnections::kMostBytes / kPayload);
  link->written(1);
  EXPECT_NE(sent(id), "");
  EXPECT_FALSE(link->accepts_commands(id)) << "what is left waits";
  link->written(2);
  EXPECT_GT(sent(id).size(), WorkerConnections::kMostBytes);
  EXPECT_TRUE(link->accepts_commands(id));
}

TEST_F(WorkerLinkEventsTest, AQuantumIsLongBesideARoundTrip) {
  const WorkerLink::Id id = joined(1, " LEASE 2000");
  const RemoteWorker& worker = link->workers().at(id);
  EXPECT_EQ(worker.quantum(), 10ms);
  link->note_round_trip(id, 2ms);
  EXPECT_EQ(worker.quantum(), 40ms);
  link->note_round_trip(id, 10ms);
  EXPECT_EQ(worker.quantum(), 60ms) << "an eighth of the difference";
  for (int i = 0; i < 100; ++i) link->note_round_trip(id, 1s);
  EXPECT_EQ(worker.quantum(), 200ms) << "a tenth of a lease";
}

}  // namespace
}  // namespace locksley::daemon::test
