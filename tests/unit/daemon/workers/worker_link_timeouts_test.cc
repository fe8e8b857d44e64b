// Time-outs of the jobs of two leases on one slot, and of leases none of whose jobs has begun.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

// A worker of one slot with two leases: one whose jobs have a time-out of 1 s, to which the link
// adds 2 s, and one whose jobs have none.
class TwoLeasesTest : public WorkerLinkFixture {
 protected:
  TwoLeasesTest() {
    BatchOptions options;
    options.timeout = 1s;
    batch = host.submit("echo", 10, options);
    host.submit("echo", 100);
    timed = reclaimed(id, "1 1 0 10");
    other = reclaimed(id, "2 1 0 100");
  }
  std::string settle_timed() {
    return say(id, "SETTLE " + timed + " ok " + std::to_string(next_timed++) + " x");
  }
  std::string settle_other() {
    return say(id, "SETTLE " + other + " ok " + std::to_string(next_other++) + " x");
  }
  // The job that runs now is late after 3 s, and not before.
  void expect_late_after_three_seconds() {
    pass(2999ms);
    EXPECT_EQ(batch->status().failed, 0U);
    pass(1ms);
    EXPECT_EQ(batch->status().failed, 1U);
  }

  WorkerLink::Id id = joined(1, " LEASE 60000");
  std::shared_ptr<Batch> batch;
  std::string timed, other;
  std::uint64_t next_timed = 0, next_other = 0;
};

TEST_F(TwoLeasesTest, TheTimeInWhichTheOtherLeaseRanIsNotThatOfTheNextJob) {
  settle_timed();
  pass(100ms);
  settle_other();
  for (int i = 0; i < 7; ++i) {
    pass(400ms);
    settle_other();
  }
  say(id, "YIELD " + other);
  expect_late_after_three_seconds();
}

TEST_F(TwoLeasesTest, AWorkerThatAlternatesBetweenThemIsNeverLate) {
  for (int i = 0; i < 5; ++i) {
    settle_timed();
    for (int k = 0; k < 4; ++k) {
      pass(1s);
      settle_other();
    }
    say(id, "YIELD " + other);
    pass(500ms);
    EXPECT_EQ(batch->status().failed, 0U) << i;
    other = reclaimed(id, "2 1 0 100");
  }
  EXPECT_EQ(batch->status().ok, 5U);
}

TEST_F(TwoLeasesTest, TheTimeOfAJobCountsFromTheBeatThatSaysThatItHasBegun) {
  settle_timed();
  for (int i = 0; i < 5; ++i) {
    settle_other();
    pass(1s);
  }
  say(id, "BEAT " + timed + " 2");
  expect_late_after_three_seconds();
}

TEST_F(TwoLeasesTest, AJobThatHangsIsLateThoughTheOtherLeaseGoesOn) {
  settle_timed();
  say(id, "BEAT " + timed + " 2 " + other + " 0");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(batch->status().failed, 0U);
    settle_other();
    pass(1s);
  }
  EXPECT_EQ(batch->status().failed, 1U);
}

TEST_F(TwoLeasesTest, ANoteAboutAJobOfTheLeaseThatWaitsBeginsItsTime) {
  settle_timed();
  for (int i = 0; i < 5; ++i) {
    settle_other();
    pass(1s);
  }
  say(id, "NOTE " + timed + " 1 TEXT begun");
  pass(2999ms);
  EXPECT_EQ(link->stats().leases, 2U);
  pass(1ms);
  EXPECT_EQ(link->stats().leases, 1U);
}

// A program of the machine had claimed jobs 0 to 3, and ended with job 0; the others went back to
// the machine's own queue.
TEST_F(TwoLeasesTest, JobsThatTheWorkerNoLongerReportsAsBegunAreNotLateAndNotLost) {
  say(id, "BEAT " + timed + " 4");
  settle_timed();
  for (int i = 0; i < 10; ++i) {
    say(id, "BEAT " + timed + " 1");
    pass(500ms);
  }
  EXPECT_EQ(batch->status().failed, 0U);
  EXPECT_EQ(link->stats().timed_out, 0U);
  const std::uint64_t lost = link->stats().lost_by_disconnect;
  say(id, "YIELD " + other);
  link->disconnect(id, now);
  EXPECT_EQ(link->stats().lost_by_disconnect, lost);
}

TEST_F(TwoLeasesTest, EachJobThatIsLateCounts) {
  BatchOptions options;
  options.timeout = 1s;
  const auto wide = host.submit("echo", 4, options);
  const WorkerLink::Id broad = joined(4, " LEASE 60000");
  ASSERT_FALSE(reclaimed(broad, "3 1 0 4 WIDTH 4").empty());
  say(id, "YIELD " + timed);
  pass(3s);
  EXPECT_EQ(wide->status().failed, 4U);
  EXPECT_EQ(link->stats().timed_out, 4U);
}

}  // namespace
}  // namespace locksley::daemon::test
