// Leases whose jobs take longer than was expected, while other batches wait.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

// A worker of one slot with a lease of 100 jobs, of which each turns out to take a second. Its
// quantum is 10 ms.
class LongLeaseTest : public WorkerLinkFixture {
 protected:
  void begin(WorkerLink::Id with) {
    id = with;
    host.submit("echo", 1'000);
    lease = reclaimed(id, "1 1 0 100");
    say(id, "BEAT");
  }
  std::string settle(std::uint64_t index) {
    return say(id, "SETTLE " + lease + " ok " + std::to_string(index) + " x");
  }
  std::string cut(std::uint64_t at) const { return "$3 CUT $18 " + lease + " :" + std::to_string(at); }

  static constexpr Nanoseconds kBeat = Nanoseconds(10s) / 3 + 1ms;
  WorkerLink::Id id = 0;
  std::string lease;
};

TEST_F(LongLeaseTest, ItIsCutWithTheNextBeatAfterTwoQuanta) {
  begin(joined(1));
  host.submit("echo", 1);
  pass(20ms);
  EXPECT_EQ(say(id, "BEAT"), "*0") << "it has had no more than two quanta";
  pass(kBeat);
  EXPECT_EQ(say(id, "BEAT"), "*1 *3 " + cut(1)) << "the first job may run";
  EXPECT_EQ(say(id, "YIELD " + lease + " 1"), ":99");
  settle(0);
  const Granted next = claim(id);
  EXPECT_EQ(next.batch, "2") << "the job that has waited";
}

TEST_F(LongLeaseTest, AWorkerWithPushesIsToldWhenItSettlesAJob) {
  begin(joined_with_pushes(1));
  host.submit("echo", 1);
  pass(1s);
  EXPECT_NE(settle(0).find(">3 " + cut(2)), std::string::npos) << "job 1 may run";
  EXPECT_EQ(link->stats().cut_orders, 1U);
  pass(1s);
  EXPECT_EQ(settle(1).find("CUT"), std::string::npos) << "once";
}

TEST_F(LongLeaseTest, AWorkerWithPushesIsToldThoughItOnlySendsBytes) {
  begin(joined_with_pushes(1));
  host.submit("echo", 1);
  link->heard(id, now);
  pass(kBeat);
  EXPECT_EQ(sent(id), ">3 " + cut(1));
}

TEST_F(LongLeaseTest, ItKeepsItsJobsWhileNoOtherBatchWaits) {
  begin(joined(1));
  pass(kBeat);
  EXPECT_EQ(say(id, "BEAT"), "*0") << "the rest of its batch is queued";
  host.submit("resize", 1);
  pass(kBeat);
  EXPECT_EQ(say(id, "BEAT"), "*0") << "the worker does not serve that";
  EXPECT_EQ(link->stats().cut_orders, 0U);
}

TEST_F(LongLeaseTest, ItIsCutForTheBatchThatIsLeasedBehindIt) {
  begin(joined(1));
  const auto other = host.submit("echo", 1);
  const std::string behind = reclaimed(id, "2 1 0 1");
  ASSERT_NE(behind, "");
  pass(kBeat);
  EXPECT_EQ(say(id, "BEAT"), "*1 *3 " + cut(1));
  EXPECT_EQ(say(id, "YIELD " + lease + " 1"), ":99");
  settle(0);
  EXPECT_EQ(say(id, "SETTLE " + behind + " ok 0 x"), "*2 :1 :0");
  EXPECT_TRUE(other->is_over());
}

TEST_F(LongLeaseTest, TheLeaseOfTheSameBatchBehindItKeepsOneJob) {
  begin(joined(1));
  const std::string behind = reclaimed(id, "1 1 100 200");
  host.submit("echo", 1);
  pass(kBeat);
  EXPECT_EQ(say(id, "BEAT"), "*2 *3 " + cut(1) + " *3 $3 CUT $18 " + behind + " :101");
}

TEST_F(LongLeaseTest, AWorkerThatYieldsNothingIsNotAskedAgainBeforeALeaseHasPassed) {
  begin(joined(1));
  host.submit("echo", 1);
  pass(kBeat);
  EXPECT_NE(say(id, "BEAT"), "*0");
  EXPECT_EQ(say(id, "YIELD " + lease + " 100"), ":0") << "it has begun them all";
  for (int i = 0; i < 2; ++i) {
    pass(kBeat);
    EXPECT_EQ(say(id, "BEAT"), "*0");
  }
  pass(kBeat + 1s);
  EXPECT_EQ(say(id, "BEAT"), "*1 *3 " + cut(1));
}

TEST_F(LongLeaseTest, AJobThatIsLongByItselfIsNotCut) {
  id = joined(1);
  host.submit("echo", 2);
  ASSERT_EQ(claim(id).count, 1U);
  pass(kBeat);
  EXPECT_EQ(say(id, "BEAT"), "*0");
  EXPECT_EQ(link->stats().cut_orders, 0U);
}

}  // namespace
}  // namespace locksley::daemon::test
