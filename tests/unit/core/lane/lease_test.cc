// Leases: several turns of one batch that are out at once and whose jobs end in any order.
// Length: one class, whose tests share its lane.
#include "core/lane/lease.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/lane/lane_gates.h"
#include "core/lane/lane_view.h"
#include "tests/support/batch_fixture.h"
#include "tests/support/patchy_payloads.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using std::chrono::seconds;
using testing::AwayPayloads;
using testing::PatchyPayloads;
using testing::Row;
using testing::rows_of;
using Ranges = std::vector<IndexRange>;

template <class Member, class Value>
BatchOptions with(Member BatchOptions::* member, Value value) {
  BatchOptions options;
  options.*member = static_cast<Member>(value);
  return options;
}

class LeaseTest : public ::testing::Test {
 protected:
  LeaseTest() { lane.gates().set_remote(0, true); }

  std::shared_ptr<Batch> submit(
      std::uint64_t jobs, BatchOptions options = {},
      std::unique_ptr<PayloadSource> payloads = std::make_unique<RangePayloads>(100)) {
    auto batch = std::make_shared<Batch>(std::move(options), handler, std::move(payloads));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  // Claims until a turn is of as many jobs as are asked for, which the ring's caution delays.
  void learn() {
    lane.set_parallelism(1);
    submit(10'000);
    Lease lease(lane, buffers);
    while (lease.claim({.most_jobs = 10'000})) {
      end(lease, lease.range());
      lease.settle(Nanoseconds(1));
    }
  }
  // `first` holds all jobs of the batch, however few a claim would take.
  std::shared_ptr<Batch> lease_all(std::shared_ptr<Batch> batch) {
    EXPECT_TRUE(first.reclaim(*batch, {0, batch->status().jobs}, 1, 1, losses));
    return batch;
  }
  std::uint64_t end(Lease& lease, IndexRange jobs, JobStatus status = JobStatus::kOk,
                    std::string_view output = "x") {
    const std::vector<std::string_view> outputs(jobs.size(), output);
    return lease.end_jobs(status, jobs.low, outputs, losses);
  }
  RingSnapshot ring() { return lane.view().snapshot(0); }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  // Turns are of many jobs from the start.
  Lane lane{"remote", {.share = Share::kJobs, .quantum = std::chrono::seconds(1)}};
  LeaseBuffers buffers;
  LossCounts losses{3};
  Lease first{lane, buffers}, second{lane, buffers};
};

TEST_F(LeaseTest, NothingToClaimIsNoLease) {
  EXPECT_FALSE(first.claim({}));
  EXPECT_FALSE(first.is_out());
}

TEST_F(LeaseTest, JobsEndInAnyOrder) {
  const auto batch = lease_all(submit(5));
  EXPECT_EQ(end(first, {3, 5}, JobStatus::kOk, "late"), 2U);
  EXPECT_EQ(end(first, {0, 1}, JobStatus::kError, "bad"), 1U);
  EXPECT_EQ(first.held().ranges(), (Ranges{{1, 3}}));
  EXPECT_EQ(batch->status().ok, 2U) << "visible at once";
  EXPECT_EQ(end(first, {1, 3}), 2U);
  EXPECT_EQ(first.settle(seconds(1)), 0U);
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(rows_of(*batch), (std::vector<Row>{{3, JobStatus::kOk, "late"},
                                               {4, JobStatus::kOk, "late"},
                                               {0, JobStatus::kError, "bad"},
                                               {1, JobStatus::kOk, "x"},
                                               {2, JobStatus::kOk, "x"}}));
}

TEST_F(LeaseTest, AJobIsRecordedOnce) {
  const auto batch = lease_all(submit(5));
  EXPECT_EQ(end(first, {1, 3}), 2U);
  EXPECT_EQ(end(first, {0, 5}), 3U) << "those it still holds";
  EXPECT_EQ(end(first, {0, 5}), 0U);
  first.settle(seconds(1));
  EXPECT_EQ(rows_of(*batch).size(), 5U);
}

TEST_F(LeaseTest, SeveralLeasesOfABatchAreOutAtOnce) {
  const auto batch = submit(2);
  ASSERT_TRUE(first.claim({.most_jobs = 1}));
  ASSERT_TRUE(second.claim({.most_jobs = 1}));
  EXPECT_EQ(batch->status().running, 0U) << "neither has begun";
  first.begin();
  EXPECT_EQ(batch->status().running, 1U);
  EXPECT_EQ(end(second, first.range()), 0U) << "the other's";
  EXPECT_EQ(end(second, second.range()), 1U);
  second.settle(seconds(1));
  EXPECT_EQ(end(first, first.range()), 1U);
  first.settle(seconds(1));
  EXPECT_TRUE(batch->is_over());
}

TEST_F(LeaseTest, WhatIsGivenBackGoesToAnother) {
  const auto batch = lease_all(submit(10));
  EXPECT_EQ(end(first, {7, 8}), 1U);
  EXPECT_EQ(first.give_back(5), 4U);
  EXPECT_EQ(first.held().ranges(), (Ranges{{0, 5}}));
  EXPECT_EQ(end(first, {5, 10}), 0U) << "no longer its own";
  std::uint64_t others = 0;
  while (second.claim({.most_jobs = 10})) {
    EXPECT_GE(second.range().low, 5U);
    others += end(second, second.range());
    second.settle(seconds(1));
  }
  EXPECT_EQ(others, 4U);
  EXPECT_EQ(first.settle(seconds(1)), 5U);
  EXPECT_EQ(ring().queued, 5U);
  EXPECT_EQ(ring().executors, 0U);
}

TEST_F(LeaseTest, ALeaseThatIsDestroyedGivesItsJobsBack) {
  submit(3);
  {
    Lease lease(lane, buffers);
    ASSERT_TRUE(lease.claim({.most_jobs = 3}));
  }
  EXPECT_EQ(ring().queued, 3U);
  EXPECT_EQ(ring().executors, 0U);
}

TEST_F(LeaseTest, AHeldOrCancelledBatchIsGivenBackWithoutARun) {
  const auto batch = lease_all(submit(4));
  EXPECT_EQ(end(first, {0, 1}), 1U);
  lane.cancel(*batch, "why");
  EXPECT_EQ(first.give_back(2), 2U);
  EXPECT_EQ(batch->status().cancelled, 2U);
  EXPECT_EQ(end(first, {1, 2}), 1U) << "a job that ran to its end";
  first.settle(seconds(1));
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().ok, 2U);
}

TEST_F(LeaseTest, PayloadsAreBoundedAndTheRestGoesBack) {
  learn();
  submit(10, {}, std::make_unique<PatchyPayloads>(99, std::string(100, 'p')));
  ASSERT_TRUE(first.claim({.most_jobs = 10, .most_bytes = 250}));
  EXPECT_EQ(first.payloads().size(), std::min<std::size_t>(3, first.range().size()));
  EXPECT_EQ(first.payloads().size(), first.held().size());
  EXPECT_EQ(first.payload_bytes(), 100 * first.payloads().size());
  EXPECT_EQ(ring().queued, 10 - first.held().size());
  ASSERT_TRUE(second.claim({.most_jobs = 10, .most_bytes = 1}));
  EXPECT_EQ(second.payloads().size(), 1U) << "at least one";
  first.settle({});
  second.settle({});
}

TEST_F(LeaseTest, ARangeHasNoPayloads) {
  submit(4);
  ASSERT_TRUE(first.claim({.most_jobs = 4}));
  EXPECT_TRUE(first.payloads().empty());
  EXPECT_EQ(first.payload_bytes(), 0U);
  first.settle({});
}

TEST_F(LeaseTest, APayloadThatCannotBeReadIsTheErrorOfItsJob) {
  const auto batch = submit(3, {}, std::make_unique<PatchyPayloads>(0, std::string(100, 'p')));
  ASSERT_TRUE(first.claim({.most_jobs = 3}));
  EXPECT_EQ(first.range().low, 1U);
  EXPECT_EQ(rows_of(*batch), (std::vector<Row>{{0, JobStatus::kError, "cannot read the payload: lost"}}));
  end(first, first.range());
  first.settle(seconds(1));
  while (first.claim({.most_jobs = 3})) {
    end(first, first.range());
    first.settle(seconds(1));
  }
  EXPECT_TRUE(batch->is_over());
}

TEST_F(LeaseTest, ABatchPausesWhileItsPayloadsCannotBeRead) {
  std::atomic<std::uint64_t> first_away = 0;
  const auto batch = submit(3, {}, std::make_unique<AwayPayloads>(first_away));
  submit(1);
  ASSERT_TRUE(first.claim({.most_jobs = 3}));
  EXPECT_NE(&first.batch(), batch.get()) << "other batches are served";
  EXPECT_FALSE(second.claim({.most_jobs = 3}));
  EXPECT_EQ(batch->status().queued, 3U);
  EXPECT_EQ(batch->status().running, 0U);
  first.settle(seconds(1));

  first_away = 3;
  lane.end_waits(steady_now() + seconds(1));
  while (first.claim({.most_jobs = 3})) {
    EXPECT_EQ(first.attempt(), 1U);
    end(first, first.range());
    first.settle(seconds(1));
  }
  EXPECT_EQ(batch->status().ok, 3U);
}

TEST_F(LeaseTest, ABatchStartsWithItsFirstJob) {
  std::atomic<std::uint64_t> first_away = 0;
  const auto batch = submit(1, {}, std::make_unique<AwayPayloads>(first_away));
  EXPECT_FALSE(first.claim({.most_jobs = 1}));
  EXPECT_EQ(batch->status().state, BatchState::kQueued) << "its payload cannot be read yet";
  first_away = 1;
  lane.end_waits(steady_now() + seconds(1));
  ASSERT_TRUE(first.claim({.most_jobs = 1}));
  first.settle(seconds(0));
  EXPECT_EQ(batch->status().state, BatchState::kQueued) << "the machine began no job";
  EXPECT_EQ(batch->status().started_at, 0);
  ASSERT_TRUE(first.claim({.most_jobs = 1}));
  first.begin();
  EXPECT_EQ(batch->status().state, BatchState::kRunning);
  first.settle(seconds(0));
}

TEST_F(LeaseTest, AnOutputThatIsTooLargeEndsItsJobAsAnError) {
  const auto batch = lease_all(submit(2, with(&BatchOptions::max_output_bytes, 3)));
  EXPECT_EQ(end(first, {0, 1}, JobStatus::kOk, "four"), 1U);
  EXPECT_EQ(end(first, {1, 2}, JobStatus::kOk, "two"), 1U);
  first.settle(seconds(1));
  EXPECT_EQ(batch->status().failed, 1U);
  EXPECT_EQ(batch->status().ok, 1U);
}

TEST_F(LeaseTest, TheJobsOfALeaseHaveOneAttempt) {
  const auto batch = lease_all(submit(6, with(&BatchOptions::retries, 5)));
  end(first, {2, 4}, JobStatus::kError);
  first.settle(seconds(1));
  lane.retry_due(batch);
  testing::wait_until([&] { return lane.retry_due(batch), batch->status().waiting == 0; }, "retries are due");
  std::uint64_t jobs = 0;
  while (first.claim({.most_jobs = 6})) {
    const bool again = first.range().low >= 2 && first.range().high <= 4;
    EXPECT_EQ(first.attempt(), again ? 2U : 1U);
    EXPECT_TRUE(again || first.range().high <= 2 || first.range().low >= 4);
    jobs += end(first, first.range());
    first.settle(seconds(1));
  }
  EXPECT_EQ(jobs, 6U);
}

TEST_F(LeaseTest, OnlyTheJobsThatRanAreLost) {
  const auto batch = lease_all(submit(10));
  end(first, {0, 1});
  const Lease::Lost lost = first.lose(seconds(1), 2, losses);
  EXPECT_EQ(lost.counted, 2U);
  EXPECT_EQ(lost.crashed, 0U);
  EXPECT_EQ(lost.returned, 9U);
  EXPECT_EQ(losses.size(), 2U) << "jobs 1 and 2; the others are innocent";
  EXPECT_EQ(ring().queued, 9U);
}

TEST_F(LeaseTest, TheThirdLossEndsAJobWhateverRetriesItHas) {
  testing::RecordingJournal::Record journal;
  const auto batch =
      std::make_shared<Batch>(with(&BatchOptions::retries, 9), handler, std::make_unique<RangePayloads>(100),
                              nullptr, std::make_unique<testing::RecordingJournal>(journal));
  lane.submit(batch, 2, /*open=*/false);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(first.claim({.most_jobs = 1}));
    ASSERT_EQ(first.range().low, 0U);
    EXPECT_EQ(first.lose(seconds(1), 1, losses).crashed, i == 2 ? 1U : 0U);
  }
  EXPECT_EQ(rows_of(*batch), (std::vector<Row>{{0, JobStatus::kCrashed, "lost with its worker 3 times"}}));
  EXPECT_EQ(journal.steps.back().ended, (Ranges{{0, 1}}));
  EXPECT_EQ(batch->status().retried, 0U);
  EXPECT_EQ(losses.size(), 0U);
  EXPECT_EQ(ring().queued, 1U);
}

TEST_F(LeaseTest, AMachineThatComesBackReclaimsWhatIsQueued) {
  const auto batch = lease_all(submit(10));
  end(first, {0, 2});
  (void)first.lose(seconds(1), 1, losses);
  ASSERT_TRUE(second.claim({.most_jobs = 1}));
  EXPECT_FALSE(first.reclaim(*batch, {2, 10}, 2, 1, losses)) << "no job has this attempt";
  EXPECT_EQ(ring().executors, 1U);
  ASSERT_TRUE(first.reclaim(*batch, {0, 10}, 1, 1, losses));
  EXPECT_EQ(first.held().size(), 8 - second.held().size());
  EXPECT_EQ(end(first, {0, 10}), first.range().size());
  EXPECT_EQ(first.settle(seconds(1)), 0U);
  EXPECT_EQ(end(second, second.range()), 1U);
  second.settle(seconds(1));
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(losses.size(), 0U);
}

TEST_F(LeaseTest, ABatchWhoseHandlerIsHeldIsNotReclaimedSinceItMayMove) {
  const auto batch = submit(10);
  lane.hold(*batch, Hold::kHandler);
  EXPECT_FALSE(first.reclaim(*batch, {0, 10}, 1, 1, losses));
  lane.release(*batch, Hold::kHandler);
  EXPECT_TRUE(first.reclaim(*batch, {0, 10}, 1, 1, losses));
}

TEST_F(LeaseTest, ABatchIsReclaimedInTheLaneThatHasIt) {
  Lane other("other", {});
  const auto batch = submit(10);
  ASSERT_TRUE(lane.hand_over(batch, other));
  EXPECT_FALSE(first.reclaim(*batch, {0, 10}, 1, 1, losses));
  Lease there(other, buffers);
  EXPECT_TRUE(there.reclaim(*batch, {0, 10}, 1, 1, losses));
  other.cancel(*batch, "over");
}

TEST_F(LeaseTest, AReclaimTakesBackTheLossesOfItsOwnJobsAlone) {
  const auto batch = lease_all(submit(10));
  (void)first.lose(seconds(1), 1, losses);
  ASSERT_TRUE(second.reclaim(*batch, {4, 6}, 1, 1, losses));
  EXPECT_FALSE(losses.count(*batch, 5));
  ASSERT_TRUE(first.reclaim(*batch, {0, 10}, 1, 1, losses));
  EXPECT_EQ(losses.size(), 1U) << "of job 5, which the other machine holds";
  EXPECT_EQ(end(first, {0, 10}), 8U);
  EXPECT_EQ(end(second, {4, 6}), 2U);
  first.settle(seconds(1));
  second.settle(seconds(1));
  EXPECT_TRUE(batch->is_over());
}

TEST_F(LeaseTest, AnExpiredLeaseEndsWhatRanAtItsTimeOut) {
  const auto batch = lease_all(submit(10));
  EXPECT_EQ(first.expire(seconds(9), 2, losses), 8U);
  EXPECT_EQ(batch->status().failed, 2U);
  EXPECT_EQ(rows_of(*batch).front().status, JobStatus::kTimeout);
  EXPECT_EQ(ring().queued, 8U);
}

TEST_F(LeaseTest, WhatItUsedIsChargedOnce) {
  Lane timed{"timed", {.quantum = std::chrono::milliseconds(1)}};
  timed.gates().set_remote(0, true);
  const auto batch =
      std::make_shared<Batch>(with(&BatchOptions::tenant, "t"), handler, std::make_unique<RangePayloads>(0));
  timed.submit(batch, 10, /*open=*/false);
  Lease lease(timed, buffers);
  ASSERT_TRUE(lease.claim({.most_jobs = 1, .width = 4}));
  EXPECT_EQ(lease.width(), 1U);
  for (const int so_far : {3, 2, 5}) lease.charge_so_far(seconds(so_far));
  lease.settle(seconds(6));
  EXPECT_EQ(timed.view().snapshot(0).tenants.front().busy, seconds(6));
}

TEST_F(LeaseTest, ASlotThatIsFreeAgainWakesOthers) {
  int woken = 0;
  lane.on_work([&woken] { ++woken; });
  submit(2, with(&BatchOptions::slots, 1U));
  ASSERT_TRUE(first.claim({.most_jobs = 1}));
  EXPECT_FALSE(second.claim({.most_jobs = 1}));
  end(first, first.range());
  woken = 0;
  first.settle(seconds(1));
  EXPECT_EQ(woken, 1);
}

TEST_F(LeaseTest, LocalExecutorsAreNotWokenForWhatRemoteOnesAloneMayRun) {
  int woken = 0;
  lane.on_work([&woken] { ++woken; });
  lane.gates().set_switch(0, false);
  lane.want_remote_work(true);
  woken = 0;
  submit(1);
  EXPECT_EQ(woken, 0);
  lane.gates().set_switch(0, true);
  EXPECT_EQ(woken, 1);
}

TEST_F(LeaseTest, TooManyFailuresCancelTheRest) {
  const auto batch = submit(10, with(&BatchOptions::max_fails, 1));
  ASSERT_TRUE(first.claim({.most_jobs = 1}));
  end(first, first.range(), JobStatus::kError);
  first.settle(seconds(1));
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().cancelled, 9U);
}

using LeaseDeathTest = LeaseTest;
TEST_F(LeaseDeathTest, CallsInAWrongOrderAbort) {
  submit(3);
  EXPECT_DEATH(first.settle(seconds(1)), "is not out");
  EXPECT_DEATH(first.begin(), "is not out");
  ASSERT_TRUE(first.claim({.most_jobs = 1}));
  EXPECT_DEATH((void)first.claim({}), "while it is out");
}

}  // namespace
}  // namespace locksley
