// RECLAIM: which jobs a worker may take again.
#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "core/lane/lane_groups.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

class ReclaimTest : public WorkerLinkFixture {
 protected:
  // Batch number 1, as a restart has left it: at attempt 2, and held.
  std::shared_ptr<Batch> restore(Hold hold, std::int64_t started_at = 0) {
    auto batch = std::make_shared<Batch>(BatchOptions{}, host.served.at("echo")->handler,
                                         std::make_unique<RangePayloads>(0));
    BatchHistory history;
    history.jobs = 10;
    history.closed = true;
    history.attempt = 2;
    history.started_at = started_at;
    batch->restore(history);
    batch->set_hold(hold);
    host.batches[1] = batch;
    const IndexRange all{0, 10};
    host.lane_of("echo")->enqueue(batch, {&all, 1}, /*open=*/false);
    return batch;
  }

  static constexpr const char* kTooEarly = "-LOST the batch may not start yet";
};

TEST_F(ReclaimTest, ABatchThatMayNotStartYetHasNoJobsToReclaim) {
  for (const Hold hold : {Hold::kDelay, Hold::kBatches}) {
    const auto batch = host.submit("echo", 10);
    const std::string number = std::to_string(host.last_batch);
    host.lane_of("echo")->hold(*batch, hold);
    const WorkerLink::Id id = joined();
    EXPECT_EQ(say(id, "RECLAIM " + number + " 1 0 10"), kTooEarly);
    EXPECT_EQ(ring().claimed, 0U);
    host.lane_of("echo")->release(*batch, hold);
    const Granted lease = claim(id, "JOBS 1");
    ASSERT_TRUE(lease);
    say(id, "YIELD " + lease.lease);
    EXPECT_EQ(say(id, "RECLAIM " + number + " 1 0 10").front(), '*');
    link->disconnect(id, now);
    host.lane_of("echo")->cancel(*batch, "");
  }
}

TEST_F(ReclaimTest, JobsOfAPausedBatchAreReclaimed) {
  const auto batch = host.submit("echo", 10);
  host.lane_of("echo")->pause(*batch);
  EXPECT_EQ(say(joined(), "RECLAIM 1 1 0 10").front(), '*');
}

TEST_F(ReclaimTest, AfterARestartABatchThatWaitsOnceMoreGivesItsJobsToWhoRunsThem) {
  restart({.has_recovered = true});
  restore(Hold::kBatches);
  const WorkerLink::Id id = joined();
  EXPECT_EQ(say(id, "RECLAIM 1 2 0 5"), kTooEarly) << "not an attempt of before the restart";
  EXPECT_EQ(say(id, "RECLAIM 1 1 0 5").front(), '*');
  link->disconnect(id, now);
  pass(3s);
  EXPECT_EQ(say(joined(), "RECLAIM 1 2 0 5").front(), '*') << "it has started by now";
}

TEST_F(ReclaimTest, ABatchThatHadStartedBeforeTheRestartGivesItsJobsAtAnyTime) {
  restart({.has_recovered = true});
  restore(Hold::kDelay, /*started_at=*/1'000);
  pass(10s);
  EXPECT_EQ(say(joined(), "RECLAIM 1 2 0 5").front(), '*');
}

TEST_F(ReclaimTest, AfterARestartABatchThatIsNewHasNoEarlierAttempt) {
  restart({.has_recovered = true});
  const auto batch = host.submit("echo", 10);
  host.lane_of("echo")->hold(*batch, Hold::kDelay);
  const WorkerLink::Id id = joined();
  EXPECT_EQ(say(id, "RECLAIM 1 0 0 10"), kTooEarly);
  EXPECT_EQ(say(id, "RECLAIM 1 1 0 10"), kTooEarly);
}

// Batch 1 after so many restarts, as in restore(): job 0 has failed once, the others never.
class LaterLifeTest : public ReclaimTest {
 protected:
  std::shared_ptr<Batch> restore(std::uint32_t restarts) {
    restart({.has_recovered = true});
    BatchOptions options;
    options.retries = 5;
    auto batch = std::make_shared<Batch>(std::move(options), host.served.at("echo")->handler,
                                         std::make_unique<RangePayloads>(0));
    BatchHistory history;
    history.jobs = 10;
    history.closed = true;
    history.attempt = 1 + restarts;
    history.started_at = 1'000;
    history.job_attempts = {{.jobs = {0, 1}, .attempts = {.failed = 1}}};
    batch->restore(history);
    host.batches[1] = batch;
    const IndexRange all{0, 10};
    host.lane_of("echo")->enqueue(batch, {&all, 1}, /*open=*/false);
    return batch;
  }
  std::string reclaim(const std::string& jobs_of_attempt) {
    return say(joined(4), "RECLAIM 1 " + jobs_of_attempt + " LEASE 000000000000002a-1");
  }
  static constexpr const char* kLost = "-LOST none of these jobs is queued for this attempt";
};

TEST_F(LaterLifeTest, JobsThatHaveNotFailedAreReclaimedAfterAnyNumberOfRestarts) {
  for (const std::uint32_t restarts : {1U, 2U, 7U}) {
    const auto batch = restore(restarts);
    const std::string ends = " :" + std::to_string(1 + restarts);
    EXPECT_THAT(reclaim("1 0 4"), ::testing::EndsWith("*1 *2 :1 :4" + ends)) << restarts;
    pass(1min);
    EXPECT_THAT(reclaim("1 0 10"), ::testing::EndsWith("*1 *2 :1 :10" + ends)) << "at any time";
    host.lane_of("echo")->cancel(*batch, "");
  }
}

TEST_F(LaterLifeTest, AJobThatHasFailedIsReclaimedForAMomentAfterOneRestart) {
  const auto batch = restore(1);
  EXPECT_EQ(reclaim("1 0 1"), kLost) << "the attempt that has failed";
  EXPECT_THAT(reclaim("2 0 1"), ::testing::EndsWith("*1 *2 :0 :1 :3"));
  host.lane_of("echo")->cancel(*batch, "");
  restore(1);
  pass(3s);
  EXPECT_EQ(reclaim("2 0 1"), kLost);
}

TEST_F(LaterLifeTest, AfterTwoRestartsAFailedJobMayBeAtALaterAttempt) {
  restore(2);
  EXPECT_EQ(reclaim("1 0 1"), kLost);
  EXPECT_EQ(reclaim("2 0 1"), kLost);
}

TEST_F(LaterLifeTest, WithoutItsNameALeaseIsOneOfTheLastProcessAndForAMomentOnly) {
  restore(1);
  EXPECT_EQ(say(joined(), "RECLAIM 1 1 1 4").front(), '*');
  EXPECT_EQ(say(joined(), "RECLAIM 1 1 4 6 LEASE nonsense").front(), '*');
  pass(3s);
  EXPECT_EQ(say(joined(), "RECLAIM 1 1 6 8"), kLost);
  EXPECT_EQ(say(joined(), "RECLAIM 1 1 6 8 LEASE nonsense"), kLost);
}

// The worker has reclaimed jobs 0 and 1 after the restart, as attempt 2; job 0 has failed since.
TEST_F(LaterLifeTest, ALeaseOfThisProcessIsReclaimedAtItsOwnAttempt) {
  restore(1);
  const std::string again = "RECLAIM 1 2 0 2 LEASE 000000000000002b-1";
  const WorkerLink::Id id = joined();
  EXPECT_EQ(say(id, again), "*3 $18 000000000000002b-1 *1 *2 :1 :2 :2");
  say(id, "SETTLE 000000000000002b-1 ok 1 x");
  EXPECT_EQ(say(joined(), again), kLost) << "job 0 is at a later attempt";
}

TEST_F(LaterLifeTest, AJobThatAnotherMachineHasIsNotReclaimed) {
  restore(2);
  pass(3s);
  ASSERT_FALSE(reclaimed(joined(), "1 3 1 9").empty());
  EXPECT_EQ(reclaim("1 1 9"), kLost);
  EXPECT_THAT(reclaim("1 1 10"), ::testing::EndsWith("*1 *2 :9 :10 :3"));
}

// A worker has broken a connection, and the daemon has not learnt that: no FIN or RST has come.
// Batch 1 has 20 jobs, of which the worker runs the first ten.
class HalfOpenTest : public WorkerLinkFixture {
 protected:
  HalfOpenTest() {
    host.submit("echo", 20, {}, std::make_unique<RangePayloads>(0));
    lease = reclaimed(broken, "1 1 0 10");
  }
  std::string reclaim(WorkerLink::Id id, const std::string& former) {
    return say(id, "RECLAIM 1 1 0 10 LEASE " + former);
  }
  std::string name_in(const std::string& reply) { return split(reply).at(2); }
  std::uint64_t lost() const { return link->stats().lost_by_disconnect + link->stats().lost_by_silence; }

  const WorkerLink::Id broken = joined();
  std::string lease;

  static constexpr const char* kLost = "-LOST none of these jobs is queued for this attempt";
};

TEST_F(HalfOpenTest, AReclaimThatNamesItsLeaseGetsTheJobsAtOnceWithoutALoss) {
  const WorkerLink::Id again = joined();
  EXPECT_THAT(reclaim(again, lease), ::testing::EndsWith("*1 *2 :0 :10 :1"));
  EXPECT_EQ(link->stats().leases, 1U);
  EXPECT_EQ(say(broken, "SETTLE " + lease + " ok 0 x"), "-LOST the lease is gone; nothing was recorded");
  pass(10s);
  link->disconnect(broken, now);
  EXPECT_EQ(lost(), 1U) << "the worker has been silent on its new connection";
}

TEST_F(HalfOpenTest, WithoutTheNameTheJobsAreOutUntilTheConnectionIsSilent) {
  const WorkerLink::Id again = joined();
  EXPECT_EQ(say(again, "RECLAIM 1 1 0 10"), kLost);
  for (const char* const name :
       {"000000000000002a-0", "000000000000002a-7", "000000000000002b-1", "nonsense"})
    EXPECT_EQ(reclaim(again, name), kLost) << name;
  pass(10s);
  EXPECT_EQ(say(again, "RECLAIM 1 1 0 10").front(), '*');
}

TEST_F(HalfOpenTest, NeitherAnotherUserNorAnotherBatchTakesALease) {
  const WorkerLink::Id other = connect("limited");
  say(other, "JOIN w SLOTS 2 HANDLERS echo");
  EXPECT_EQ(reclaim(other, lease), kLost);
  host.submit("echo", 10);
  EXPECT_EQ(say(joined(), "RECLAIM 2 1 0 10 LEASE " + lease).front(), '*') << "jobs that are queued";
  EXPECT_THAT(say(broken, "SETTLE " + lease + " ok 0 x"), ::testing::HasSubstr(":9"))
      << "it holds the others";
}

TEST_F(HalfOpenTest, AWorkerThatNamesALeaseOfTheSameConnectionKeepsIt) {
  EXPECT_EQ(reclaim(broken, lease), kLost);
  EXPECT_THAT(say(broken, "SETTLE " + lease + " ok 0 x"), ::testing::HasSubstr(":9"));
}

TEST_F(HalfOpenTest, AWorkerWhoseConnectionTheOwnerClosesReclaimsItsJobsWithoutALoss) {
  link->end_claim(broken, now);
  link->send_away(broken);
  EXPECT_TRUE(link->has_leases(broken));
  const WorkerLink::Id again = joined();
  EXPECT_THAT(reclaim(again, lease), ::testing::EndsWith("*1 *2 :0 :10 :1"));
  EXPECT_FALSE(link->has_leases(broken));
  link->disconnect(broken, now);
  EXPECT_EQ(lost(), 0U);
}

TEST_F(HalfOpenTest, IfTheWorkerDoesNotReturnItsJobsGoBackWithoutALoss) {
  link->end_claim(broken, now);
  link->send_away(broken);
  EXPECT_EQ(say(joined(), "RECLAIM 1 1 0 10"), kLost) << "until it has had time to return";
  link->disconnect(broken, now + link->time_to_return());
  EXPECT_EQ(lost(), 0U);
  EXPECT_NE(reclaimed(joined(), "1 1 0 10"), "");
}

TEST_F(HalfOpenTest, LossesStayAsTheyAre) {
  WorkerLink::Id id = broken;
  for (int i = 0; i < 2; ++i) {
    link->disconnect(id, now);
    id = joined();
    lease = claim(id, "JOBS 1").lease;
  }
  ASSERT_EQ(lost(), 2U) << "of job 0";
  for (int i = 0; i < 4; ++i) {
    id = joined();
    lease = name_in(reclaim(id, lease));
  }
  EXPECT_EQ(lost(), 2U);
  link->disconnect(id, now);
  EXPECT_EQ(lost(), 3U);
  EXPECT_EQ(host.batches.at(1)->status().failed, 1U) << "crashed";
}

TEST_F(HalfOpenTest, OtherLeasesOfTheConnectionEndWithoutALoss) {
  // The reply to this CLAIM never arrives.
  ASSERT_TRUE(claim(broken, "SLOT 1 JOBS 1"));
  const WorkerLink::Id again = joined();
  reclaim(again, lease);
  pass(5s);
  say(again, "BEAT");
  pass(5s);
  EXPECT_EQ(link->stats().leases, 1U);
  EXPECT_EQ(lost(), 0U);
}

TEST_F(HalfOpenTest, LeasesThatTheConnectionGetsAfterwardsCountLosses) {
  reclaim(joined(), lease);
  ASSERT_TRUE(claim(broken, "JOBS 1"));
  link->disconnect(broken, now);
  EXPECT_EQ(lost(), 1U);
}

TEST_F(HalfOpenTest, NoJobOfALeaseThatTheWorkerNeverGotTimesOut) {
  BatchOptions options;
  options.timeout = 1s;
  host.submit("echo", 2, options);
  const WorkerLink::Id one_slot = joined(1);
  const std::string front = reclaimed(one_slot, "2 1 0 1");
  ASSERT_NE(reclaimed(one_slot, "2 1 1 2"), "") << "behind it: as by a CLAIM, whose reply never arrives";
  const WorkerLink::Id again = joined(1);
  const std::string name = name_in(say(again, "RECLAIM 2 1 0 1 LEASE " + front));
  say(again, "SETTLE " + name + " ok 0 x");
  pass(4s);
  EXPECT_EQ(link->stats().timed_out, 0U);
  EXPECT_EQ(host.batches.at(2)->status().failed, 0U);
  EXPECT_NE(reclaimed(again, "2 1 1 2"), "") << "it is queued again";
}

TEST_F(HalfOpenTest, AClaimThatWaitsOnTheConnectionGetsNoJobs) {
  ASSERT_NE(reclaimed(broken, "1 1 10 20 SLOT 1"), "");
  ASSERT_EQ(say(broken, "CLAIM SLOT 0 BLOCK 60000"), "");
  const WorkerLink::Id again = joined();
  reclaim(again, lease);
  host.submit("echo", 10);
  link->wake(now);
  EXPECT_EQ(sent(broken), "$-1");
}

TEST_F(HalfOpenTest, TheNameOfTheLeaseBeforeWillDoIfTheReplyOfAReclaimWasLost) {
  std::string reply;
  for (int i = 0; i < 3; ++i) {
    reply = reclaim(joined(), lease);
    EXPECT_THAT(reply, ::testing::EndsWith("*1 *2 :0 :10 :1"));
    EXPECT_EQ(link->stats().leases, 1U);
  }
  const WorkerLink::Id last = joined();
  EXPECT_EQ(reclaim(last, name_in(reply)).front(), '*');
  EXPECT_EQ(reclaim(joined(), lease), kLost) << "a name that its worker has replaced";
}

// Claims whatever there is as soon as it is told of work.
struct Thief : RemoteExecutors {
  explicit Thief(Lane& of) : lane(of) {}
  void lane_has_work() override {
    if (!lease.is_out()) (void)lease.claim({.most_jobs = 100});
  }
  void lane_has_stops() override {}
  Lane& lane;
  LeaseBuffers buffers;
  Lease lease{lane, buffers};
};

TEST_F(HalfOpenTest, NoExecutorGetsTheJobsInBetween) {
  Lane& lane = *host.lane_of("echo");
  const WorkerLink::Id waits = joined();
  reclaimed(broken, "1 1 10 20 SLOT 1");
  ASSERT_EQ(say(waits, "CLAIM BLOCK 60000"), "");
  const WorkerLink::Id again = joined();
  Thief thief(lane);
  lane.set_remote(&thief);
  EXPECT_THAT(reclaim(again, lease), ::testing::EndsWith("*1 *2 :0 :10 :1"));
  EXPECT_FALSE(thief.lease.is_out());
  EXPECT_EQ(sent(waits), "");
  link->disconnect(again, now);
  EXPECT_TRUE(thief.lease.is_out() || parse(sent(waits))) << "afterwards they are for all";
  lane.set_remote(nullptr);
}

TEST_F(HalfOpenTest, AJobThatRunsOnUsesOneStart) {
  Lane& lane = *host.lane_of("echo");
  constexpr Nanoseconds kInterval = 1h;
  say(broken, "YIELD " + lease);
  lane.groups().set_tenant_limits("default", {.start_interval = kInterval});
  const Nanoseconds began = steady_now();
  const auto used = [&] {
    const auto next = lane.end_waits(steady_now());
    return next ? (*next - began + kInterval / 2) / kInterval : 0;
  };
  WorkerLink::Id id = joined();
  lease = name_in(say(id, "RECLAIM 1 1 0 10"));
  const auto before = used();
  for (int i = 0; i < 3; ++i) {
    id = joined();
    lease = name_in(reclaim(id, lease));
    EXPECT_EQ(used(), before);
  }
  EXPECT_EQ(before, 10);
}

}  // namespace
}  // namespace locksley::daemon::test
