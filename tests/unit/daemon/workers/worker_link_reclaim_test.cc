// RECLAIM: which jobs a worker may take again.
#include <gtest/gtest.h>

#include <memory>
#include <string>

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

}  // namespace
}  // namespace locksley::daemon::test
