// The pool: batches, results, cancellation, and its own life. Sub-jobs: pool_tasks_test.cc.
#include "core/pool/pool.h"
#include "core/batch/batch_results.h"

#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <stdexcept>

#include "tests/support/gate.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::Gate;
using testing::PoolFixture;
using testing::Row;
using testing::rows_of;
using testing::wait_until;
using namespace std::chrono_literals;

class PoolTest : public PoolFixture {};

void echo(JobContext& context, std::string_view payload) { context.write(payload); }

TEST_F(PoolTest, RunsEveryJobOnceAndKeepsItsOutput) {
  constexpr std::uint64_t kJobs = 20'000;
  auto batch = submit_range(handler(echo), kJobs);
  wait_over(*batch);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.state, BatchState::kDone);
  EXPECT_EQ(status.ok, kJobs);
  EXPECT_EQ(status.queued + status.running + status.failed + status.cancelled, 0u);
  std::vector<bool> seen(kJobs);
  for (const Row& row : rows_of(*batch)) {
    EXPECT_EQ(row.output, std::to_string(row.index));
    EXPECT_FALSE(seen[row.index]) << row.index;
    seen[row.index] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<std::ptrdiff_t>(kJobs));
}

TEST_F(PoolTest, AnEmptyBatchIsOverAtOnce) {
  auto batch = submit_range(handler(echo), 0);
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().state, BatchState::kDone);
}

TEST_F(PoolTest, WhatAHandlerThrowsBecomesItsJobsErrorAndReachesTheObserver) {
  struct Observer final : BatchObserver {
    void batch_changed(const std::shared_ptr<Batch>&) override {}
    void handler_threw(const Batch&, std::uint64_t index, std::string_view what) override {
      const std::lock_guard lock(mutex);
      thrown.emplace_back(index, what);
    }
    void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}
    std::mutex mutex;
    std::vector<std::pair<std::uint64_t, std::string>> thrown;
  } told;
  observer = &told;
  Handler& run = handler([](JobContext& context, std::string_view payload) {
    context.write("half an output");
    if (payload == "1") throw std::runtime_error("no luck");
    if (payload == "2") throw 7;
  });
  auto batch = submit_range(run, 3);
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch),
              ::testing::UnorderedElementsAre(
                  Row{0, JobStatus::kOk, "half an output"}, Row{1, JobStatus::kError, "no luck"},
                  Row{2, JobStatus::kError, "the handler threw something that is no std::exception"}));
  EXPECT_EQ(batch->status().failed, 2u);
  EXPECT_THAT(told.thrown, ::testing::Contains(::testing::Pair(1, "no luck")));
  pool.stop();
}

TEST_F(PoolTest, AnOpenBatchRunsWhileItGrowsAndEndsWhenItIsClosed) {
  auto batch = make(handler(echo), std::make_unique<RangePayloads>(0));
  lane.submit(batch, 3, /*open=*/true);
  wait_until([&] { return batch->status().ok == 3; }, "the first jobs have ended");
  EXPECT_EQ(batch->status().state, BatchState::kOpen);
  lane.add_jobs(*batch, 2);
  wait_until([&] { return batch->status().ok == 5; }, "the added jobs have ended");
  EXPECT_FALSE(batch->is_over());
  lane.close(*batch);
  wait_over(*batch);
  EXPECT_EQ(batch->status().jobs, 5u);
}

TEST_F(PoolTest, CancelDropsTheQueuedAsksTheRunningToStopAndRecordsBoth) {
  Gate gate;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    gate.pass();
    context.give_up();
  });
  auto batch = submit_range(run, 1'000'000'000'000);
  gate.await(2);
  const std::uint64_t dropped = lane.cancel(*batch, "not wanted any more");
  EXPECT_EQ(batch->status().running, 2u);
  EXPECT_FALSE(batch->is_over());
  gate.open();
  wait_over(*batch);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.state, BatchState::kCancelled);
  EXPECT_EQ(status.cancelled, 1'000'000'000'000u);
  EXPECT_LE(dropped, 1'000'000'000'000u - 2);
  EXPECT_EQ(status.rows, status.cancelled);
  bool told_why = false;
  batch->results().read(0, 10, [&](const ResultRow& row) {
    told_why = told_why || row.output == "not wanted any more";
    return true;
  });
  EXPECT_TRUE(told_why);
}

TEST_F(PoolTest, AfterTooManyFailuresTheRestIsCancelled) {
  BatchOptions options;
  options.max_fails = 3;
  Handler& run = handler([](JobContext& context, std::string_view) { context.fail("always"); });
  auto batch = submit_range(run, 1'000'000, options);
  wait_over(*batch);
  const BatchStatus status = batch->status();
  EXPECT_GE(status.failed, 3u);
  EXPECT_GT(status.cancelled, 500'000u);
  EXPECT_EQ(status.failed + status.cancelled, 1'000'000u);
}

TEST_F(PoolTest, KeepDecidesWhichOutputsStay) {
  Handler& run = handler([](JobContext& context, std::string_view payload) {
    if (payload.back() == '0') return context.fail("zero");
    context.write(payload);
  });
  for (const auto& [keep, rows] : {std::pair{Keep::kAll, 100u}, {Keep::kFailures, 10u}, {Keep::kNone, 0u}}) {
    BatchOptions options;
    options.keep = keep;
    auto batch = submit_range(run, 100, options);
    wait_over(*batch);
    EXPECT_EQ(batch->status().rows, rows);
    EXPECT_EQ(batch->status().ok, 90u);
    EXPECT_EQ(batch->status().failed, 10u);
  }
}

TEST_F(PoolTest, AJobPastItsTimeLimitEndsAsTimeout) {
  Handler& sleeps = handler([](JobContext& context, std::string_view) {
    context.sleep_for(60s);
    context.give_up();
  });
  BatchOptions options;
  options.timeout = 20ms;
  auto batch = submit_range(sleeps, 1, options);
  // The job that ends in time has a long limit: a worker may be held up for longer than a short
  // one.
  options.timeout = 1h;
  auto other = submit_range(handler([](JobContext&, std::string_view) {}), 1, options);
  wait_over(*batch);
  wait_over(*other);
  EXPECT_THAT(rows_of(*batch), ::testing::ElementsAre(Row{0, JobStatus::kTimeout, "timed out"}));
  EXPECT_THAT(rows_of(*other), ::testing::ElementsAre(Row{0, JobStatus::kOk, ""}));
}

TEST_F(PoolTest, SlotsLimitTheJobsThatRunAtOnce) {
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  Handler& run = handler([&](JobContext&, std::string_view) {
    const int running = ++now;
    for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
    }
    std::this_thread::sleep_for(50us);
    --now;
  });
  BatchOptions options;
  options.slots = 1;
  auto batch = submit_range(run, 500, options);
  wait_over(*batch);
  EXPECT_EQ(most, 1);
}

TEST_F(PoolTest, APausedBatchStandsStillAndResumes) {
  Gate gate;
  Handler& run = handler([&](JobContext&, std::string_view) { gate.pass(); });
  auto batch = submit_range(run, 1000);
  gate.await(2);
  lane.pause(*batch);
  gate.open();
  wait_until([&] { return batch->status().running == 0; }, "running jobs have ended");
  const std::uint64_t ended = batch->status().ok;
  EXPECT_LT(ended, 1000u);
  EXPECT_TRUE(batch->status().paused);
  auto other = submit_range(handler(echo), 1000);
  wait_over(*other);
  EXPECT_EQ(batch->status().ok, ended);
  lane.resume(*batch);
  wait_over(*batch);
  EXPECT_EQ(batch->status().ok, 1000u);
}

TEST_F(PoolTest, AResultIsNotHeldBackByTheNextJob) {
  Gate gate;
  Handler& run = handler([&](JobContext&, std::string_view payload) {
    if (payload.size() >= 3) gate.pass();  // jobs 100 and up
  });
  pool.set_workers(1);
  auto batch = submit_range(run, 101);
  gate.await(1);
  wait_until([&] { return batch->status().ok == 100; }, "all results before the long job are published");
  EXPECT_EQ(rows_of(*batch).size(), 100u);
  gate.open();
  wait_over(*batch);
}

TEST_F(PoolTest, WorkersComeAndGoWhileItRuns) {
  Handler& run = handler([](JobContext& context, std::string_view payload) {
    context.write(payload);
    if (payload.back() == '7') std::this_thread::sleep_for(20us);
  });
  auto batch = submit_range(run, 30'000);
  for (const std::uint32_t workers : {1u, 5u, 2u, 8u, 1u, 3u}) {
    pool.set_workers(workers);
    EXPECT_EQ(pool.snapshot().size(), workers);
    std::this_thread::sleep_for(2ms);
  }
  wait_over(*batch);
  EXPECT_EQ(batch->status().ok, 30'000u);
  EXPECT_THROW(pool.set_workers(0), std::invalid_argument);
  EXPECT_THROW(pool.set_workers(Pool::kMaxWorkers + 1), std::invalid_argument);
}

TEST_F(PoolTest, StopLeavesTheRestInTheRingAndStartGoesOn) {
  // So many jobs that some are left however long the pool takes to tell its workers that they
  // should leave.
  constexpr std::uint64_t kJobs = 1'000'000'000'000;
  Gate gate;
  Handler& run = handler([&](JobContext&, std::string_view) { gate.pass(); });
  BatchOptions options;
  options.keep = Keep::kNone;
  auto batch = submit_range(run, kJobs, options);
  gate.await(2);
  std::thread opener([&] {
    wait_until([&] { return pool.workers() == 0; }, "the pool is being stopped");
    gate.open();
  });
  pool.stop();
  opener.join();
  EXPECT_FALSE(batch->is_over());
  const BatchStatus stopped = batch->status();
  EXPECT_EQ(stopped.running, 0u);
  EXPECT_GE(stopped.ok, 2u) << "the jobs that ran have ended";
  EXPECT_EQ(stopped.queued, kJobs - stopped.ok);
  pool.start(2);
  wait_until([&] { return batch->status().ok > stopped.ok; }, "the rest goes on");
  lane.cancel(*batch, "enough");
  wait_over(*batch);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.ok + status.cancelled, kJobs);
}

TEST_F(PoolTest, DrainTellsWhetherEverythingHasEnded) {
  Gate gate;
  auto batch = submit_range(handler([&](JobContext&, std::string_view) { gate.pass(); }), 1);
  gate.await(1);
  EXPECT_FALSE(pool.drain(std::chrono::steady_clock::now() + 5ms));
  gate.open();
  EXPECT_TRUE(pool.drain(std::chrono::steady_clock::now() + 30s));
  EXPECT_TRUE(batch->is_over());
}

class TailTest : public PoolFixture {
 protected:
  TailTest() : PoolFixture(2, 1h) {}
};

TEST_F(TailTest, ATailOfLongJobsIsSharedByStealing) {
  // The first jobs are so short, and the quantum is so long, that large parts of the batch are
  // claimed in one go. Then jobs are long, until both workers have run one: a worker that kept its
  // claim would run for minutes.
  std::mutex mutex;
  std::set<std::thread::id> threads;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.index() < 1000) return;
    {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      if (threads.size() == 2) return;
    }
    std::this_thread::sleep_for(2ms);
  });
  auto batch = submit_range(run, 100'000);
  wait_over(*batch);
  EXPECT_EQ(threads.size(), 2u);
}

TEST_F(PoolTest, AWorkerThatLeavesPassesOnWhatItGivesBack) {
  // The batch may have one executor, so the other worker parks beside it; it must be woken when
  // that one leaves.
  for (int round = 0; round < 20; ++round) {
    Gate gate;
    BatchOptions options;
    options.slots = 1;
    auto batch = submit_range(handler([&](JobContext&, std::string_view) { gate.pass(); }), 3, options);
    gate.await(1);
    std::thread opener([&] {
      std::this_thread::sleep_for(1ms);
      gate.open();
    });
    pool.set_workers(1);
    opener.join();
    wait_over(*batch);
    EXPECT_EQ(batch->status().ok, 3u);
    pool.set_workers(2);
  }
}

TEST_F(PoolTest, CountersCanBeReadWhileWorkersComeAndGo) {
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      for (const WorkerSnapshot& worker : pool.snapshot()) ASSERT_LT(worker.worker, 64u);
      (void)pool.progress();
    }
  });
  for (std::uint32_t workers = 3; workers <= 60; workers += 3) pool.set_workers(workers);
  pool.set_workers(2);
  done = true;
  reader.join();
}

TEST_F(PoolTest, JobsThatBecomeLongDoNotHoldUpTheOthersOfTheirBurst) {
  // Short at first, so that many are taken as one burst; then each lasts until the batch is
  // cancelled. None of the burst may begin after that.
  std::atomic<int> slow{0};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.index() < 200'000) return;
    ++slow;
    while (!context.should_stop()) context.sleep_for(1h);
  });
  auto batch = submit_range(run, 1'000'000);
  wait_until([&] { return slow >= 1; }, "a long job runs");
  lane.cancel(*batch, "enough");
  wait_over(*batch);
  EXPECT_LE(slow, 2) << "one of each worker";
  EXPECT_EQ(batch->status().jobs, batch->status().ok + batch->status().cancelled);
}

class LongQuantumTest : public PoolFixture {
 protected:
  LongQuantumTest() : PoolFixture(1, 10s) {}
};

TEST_F(LongQuantumTest, ANewcomerWaitsForARunningJobAndNotForTheClaim) {
  // One worker, and a claim that would go on for seconds: the newcomer must come between two of its
  // jobs.
  constexpr std::uint64_t kJobs = 1000;
  std::shared_ptr<Batch> newcomer;
  std::shared_ptr<Batch> big;
  std::atomic<std::uint64_t> ended_before{0};
  Handler& quick = handler([&](JobContext&, std::string_view) { ended_before = big->status().ok; });
  Handler& slow = handler([&](JobContext& context, std::string_view) {
    std::this_thread::sleep_for(100us);
    if (context.index() != 700) return;
    newcomer = make(quick, std::make_unique<RangePayloads>(0));
    lane.submit(newcomer, 1, /*open=*/false);
  });
  big = make(slow, std::make_unique<RangePayloads>(0));
  lane.submit(big, kJobs, /*open=*/false);
  wait_over(*big);
  wait_over(*newcomer);
  EXPECT_GE(ended_before, 700u);
  EXPECT_LT(ended_before, kJobs);
}

TEST_F(PoolTest, ACancelledOpenBatchTakesNoMoreJobs) {
  auto batch = make(handler(echo), std::make_unique<RangePayloads>(0));
  lane.submit(batch, 3, /*open=*/true);
  lane.cancel(*batch, "enough");
  EXPECT_FALSE(lane.add_jobs(*batch, 5));
  wait_over(*batch);
  EXPECT_EQ(batch->status().jobs, 3u);
}

}  // namespace
}  // namespace locksley
