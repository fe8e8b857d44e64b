// Leases of which the worker says that it has begun no job, or all but one: they go to workers that
// are idle, and count no loss.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/lane/lane_groups.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

// A worker with a lease in front, of which it says after a second how many jobs have begun.
class HeldUpTest : public WorkerLinkFixture {
 protected:
  // `next`: that of its BEAT.
  void begin(WorkerLink::Id with, std::uint64_t jobs, std::uint64_t next, BatchOptions options = {}) {
    busy = with;
    batch = host.submit("echo", jobs, std::move(options));
    lease = reclaimed(busy, "1 1 0 " + std::to_string(jobs));
    pass(1s);
    say_begun(next);
  }
  std::string say_begun(std::uint64_t next) {
    return say(busy, "BEAT " + lease + " " + std::to_string(next));
  }
  std::string cut(std::uint64_t at) const { return ">3 $3 CUT $18 " + lease + " :" + std::to_string(at); }
  std::string yield(std::uint64_t from) { return say(busy, "YIELD " + lease + " " + std::to_string(from)); }
  // Waits for jobs.
  WorkerLink::Id idle_worker() {
    const WorkerLink::Id id = joined_with_pushes(1);
    EXPECT_EQ(say(id, "CLAIM BLOCK 60000"), "");
    return id;
  }

  WorkerLink::Id busy = 0;
  std::shared_ptr<Batch> batch;
  std::string lease;
};

TEST_F(HeldUpTest, ALeaseOfOneJobThatHasNotBegunGoesToAnIdleWorkerWhole) {
  BatchOptions options;
  options.slots = 1;  // it leaves its own place
  begin(joined_with_pushes(1), 1, 0, options);
  const WorkerLink::Id idle = idle_worker();
  EXPECT_EQ(sent(busy), cut(0));
  EXPECT_EQ(yield(0), ":1");
  EXPECT_EQ(parse(sent(idle)).count, 1U);
  EXPECT_EQ(link->stats().leases, 1U);
}

TEST_F(HeldUpTest, TheOneJobThatHasNotBegunGoesToAnIdleWorker) {
  begin(joined_with_pushes(1), 2, 1);
  const WorkerLink::Id idle = idle_worker();
  EXPECT_EQ(sent(busy), cut(1));
  EXPECT_EQ(yield(1), ":1");
  EXPECT_EQ(parse(sent(idle)).first, 1U);
}

TEST_F(HeldUpTest, AWorkerWithoutPushesIsToldWithItsNextBeat) {
  begin(joined(1), 1, 0);
  idle_worker();
  pass(20ms);
  EXPECT_EQ(say_begun(0), "*1 *3 $3 CUT $18 " + lease + " :0");
}

TEST_F(HeldUpTest, AWorkerThatHasBegunTheJobMeanwhileIsNotAskedAgain) {
  begin(joined_with_pushes(1), 1, 0);
  idle_worker();
  EXPECT_EQ(sent(busy), cut(0));
  EXPECT_EQ(yield(1), ":0");
  for (int i = 0; i < 5; ++i) {
    pass(1s);
    link->heard(busy, now);
    EXPECT_EQ(sent(busy), "");
  }
  EXPECT_EQ(link->stats().cut_orders, 1U);
}

TEST_F(HeldUpTest, AJobThatRunsStays) {
  begin(joined_with_pushes(1), 2, 1);
  say(busy, "SETTLE " + lease + " ok 0 x");
  idle_worker();
  pass(20ms);
  EXPECT_EQ(sent(busy), "") << "the next job has begun, as far as is known";
  say_begun(1);
  pass(20ms);
  EXPECT_EQ(sent(busy), cut(1)) << "it has not";
}

TEST_F(HeldUpTest, ALeaseDoesNotMoveToAnotherSlotOfTheSameMachine) {
  begin(joined_with_pushes(2), 1, 0);
  EXPECT_EQ(say(busy, "CLAIM SLOT 1 BLOCK 60000"), "");
  pass(20ms);
  EXPECT_EQ(sent(busy), "");
}

TEST_F(HeldUpTest, ALeaseDoesNotMoveToAndFroBetweenMachinesThatAreHeldUp) {
  begin(joined_with_pushes(1), 1, 0);
  const WorkerLink::Id first = busy, second = idle_worker();
  EXPECT_EQ(sent(first), cut(0));
  EXPECT_EQ(yield(0), ":1");
  EXPECT_EQ(say(first, "CLAIM BLOCK 60000"), "");
  busy = second;
  lease = parse(sent(second)).lease;
  pass(1s);
  say_begun(0);
  EXPECT_EQ(link->stats().cut_orders, 1U) << "the first one has had it";
  for (int i = 0; i < 8; ++i) {
    pass(1s);
    EXPECT_EQ(say_begun(0), "*0");
  }
  pass(1s);
  EXPECT_EQ(sent(busy), cut(0)) << "after the length of a lease, it may be free";
}

TEST_F(HeldUpTest, AMachineThatHasBegunAJobSinceIsNotTakenToBeHeldUp) {
  begin(joined_with_pushes(1), 1, 0);
  const WorkerLink::Id first = busy, second = idle_worker();
  EXPECT_EQ(sent(first), cut(0));
  EXPECT_EQ(yield(0), ":1");
  lease = parse(sent(second)).lease;
  host.submit("echo", 1);
  settle_all(first, claim(first));
  EXPECT_EQ(say(first, "CLAIM BLOCK 60000"), "");
  busy = second;
  pass(1s);
  say_begun(0);
  pass(20ms);
  EXPECT_EQ(sent(busy), cut(0));
}

TEST_F(HeldUpTest, BeatsDoNotPutOffTheTimeOutOfAWorkerThatDoesNotAnswer) {
  BatchOptions options;
  options.timeout = 1s;
  begin(joined_with_pushes(1), 1, 0, options);
  for (int i = 0; i < 10; ++i) {
    pass(1s);
    say_begun(0);
  }
  EXPECT_EQ(link->stats().leases, 1U) << "no other worker could run the job";
  const WorkerLink::Id idle = idle_worker();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sent(idle), "");
    pass(1s);
    say_begun(0);
  }
  EXPECT_EQ(parse(sent(idle)).count, 1U);
  EXPECT_EQ(batch->status().failed, 0U) << "the job has not run";
}

TEST_F(HeldUpTest, ALeaseThatLastsLongKeepsOneJobThoughNoneHasBegun) {
  begin(joined_with_pushes(1), 10, 0);
  host.submit("echo", 1);
  EXPECT_EQ(say_begun(0), cut(1) + " *0") << "the machine is held up for the other batch as well";
}

TEST_F(HeldUpTest, NoLossIsCountedForAJobThatHasNotBegun) {
  begin(joined(1), 2, 0);
  link->disconnect(busy, now);
  EXPECT_EQ(link->stats().lost_by_disconnect, 0U);
}

TEST_F(HeldUpTest, ALossIsCountedForAJobThatHasBegun) {
  begin(joined(1), 2, 1);
  link->disconnect(busy, now);
  EXPECT_EQ(link->stats().lost_by_disconnect, 1U);
}

TEST_F(HeldUpTest, ALossIsCountedForTheJobAfterOneThatHasEnded) {
  begin(joined(1), 3, 1);
  say(busy, "SETTLE " + lease + " ok 0 x");
  link->disconnect(busy, now);
  EXPECT_EQ(link->stats().lost_by_disconnect, 1U) << "the worker has gone on with job 1, as far as is known";
}

TEST_F(HeldUpTest, ALossIsCountedForTheJobOfALeaseThatHasWaitedBehindAnother) {
  busy = joined(1);
  batch = host.submit("echo", 2);
  const Granted first = claim(busy, "JOBS 1");
  lease = claim(busy, "JOBS 1").lease;
  say_begun(1);  // it waits
  settle_all(busy, first);
  link->disconnect(busy, now);
  EXPECT_EQ(link->stats().lost_by_disconnect, 1U) << "since then its job runs";
}

TEST_F(HeldUpTest, ALossIsCountedForAJobOfWhichANoteHasTold) {
  begin(joined(1), 3, 0);
  say(busy, "NOTE " + lease + " 0 PROGRESS 5");
  link->disconnect(busy, now);
  EXPECT_EQ(link->stats().lost_by_disconnect, 1U);
}

TEST_F(HeldUpTest, AJobThatHasNotBegunHasUsedNoStart) {
  host.lane_of("echo")->groups().set_tenant_limits("default", {.start_interval = 1h});
  busy = joined(1);
  batch = host.submit("echo", 2);
  lease = claim(busy).lease;
  say_begun(0);
  link->disconnect(busy, now);
  EXPECT_TRUE(claim(joined(1)));
}

}  // namespace
}  // namespace locksley::daemon::test
