// The pool and what runs on it: batches, results, sub-jobs, cancellation, and its own life.
#include "core/pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <stdexcept>

#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::PoolFixture;
using testing::Row;
using testing::rows_of;
using testing::wait_until;
using namespace std::chrono_literals;

class PoolTest : public PoolFixture {};

void echo(JobContext& context, std::string_view payload) { context.write(payload); }

// Holds jobs until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    condition_.notify_all();
    condition_.wait(lock, [this] { return open_; });
  }
  void await(int waiting) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(condition_.wait_for(lock, 30s, [&] { return waiting_ >= waiting; })) << "jobs at the gate";
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    condition_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST_F(PoolTest, RunsEveryJobOnceAndKeepsItsOutput) {
  constexpr std::uint64_t kJobs = 20'000;
  auto batch = submit_range(handler(echo), kJobs);
  wait_over(*batch);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.state, BatchState::done);
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
  EXPECT_EQ(batch->status().state, BatchState::done);
}

TEST_F(PoolTest, WhatAHandlerThrowsBecomesItsJobsErrorAndReachesTheObserver) {
  struct Observer final : BatchObserver {
    void batch_changed(const std::shared_ptr<Batch>&) override {}
    void handler_threw(const Batch&, std::uint64_t index, std::string_view what) override {
      const std::lock_guard lock(mutex);
      thrown.emplace_back(index, what);
    }
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
                  Row{0, JobStatus::ok, "half an output"}, Row{1, JobStatus::error, "no luck"},
                  Row{2, JobStatus::error, "the handler threw something that is no std::exception"}));
  EXPECT_EQ(batch->status().failed, 2u);
  EXPECT_THAT(told.thrown, ::testing::Contains(::testing::Pair(1, "no luck")));
  pool.stop();
}

TEST_F(PoolTest, AnOpenBatchRunsWhileItGrowsAndEndsWhenItIsClosed) {
  auto batch = make(handler(echo), std::make_unique<RangePayloads>(0));
  lane.submit(batch, 3, /*open=*/true);
  wait_until([&] { return batch->status().ok == 3; }, "the first jobs have ended");
  EXPECT_EQ(batch->status().state, BatchState::open);
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
  EXPECT_EQ(status.state, BatchState::cancelled);
  EXPECT_EQ(status.cancelled, 1'000'000'000'000u);
  EXPECT_LE(dropped, 1'000'000'000'000u - 2);
  EXPECT_EQ(status.rows, status.cancelled);
  bool told_why = false;
  batch->read_results(0, 10, [&](const ResultRow& row) {
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
  for (const auto& [keep, rows] : {std::pair{Keep::all, 100u}, {Keep::failures, 10u}, {Keep::none, 0u}}) {
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
  BatchOptions options;
  options.timeout = 20ms;
  Handler& run = handler([](JobContext& context, std::string_view payload) {
    if (payload == "0") return;
    context.sleep_for(60s);
    context.give_up();
  });
  auto batch = submit_range(run, 2, options);
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch), ::testing::UnorderedElementsAre(Row{0, JobStatus::ok, ""},
                                                               Row{1, JobStatus::timeout, "timed out"}));
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

std::uint64_t fib(Context& context, unsigned n) {
  if (n < 2) return n;
  std::uint64_t left = 0;
  TaskGroup group(context);
  group.spawn([&left, n](Context& inner) { left = fib(inner, n - 1); });
  const std::uint64_t right = fib(context, n - 2);
  group.wait();
  return left + right;
}

TEST_F(PoolTest, SubJobsAreSpawnedStolenAndWaitedFor) {
  Handler& run =
      handler([](JobContext& context, std::string_view) { context.write(std::to_string(fib(context, 22))); });
  auto batch = submit_range(run, 3);
  wait_over(*batch);
  for (const Row& row : rows_of(*batch)) EXPECT_EQ(row.output, "17711");
  std::uint64_t tasks = 0;
  for (const WorkerSnapshot& worker : pool.snapshot()) tasks += worker.tasks;
  EXPECT_EQ(tasks, 3u * 28656u);  // one for each inner node of the call tree: fib(23) - 1
}

TEST_F(PoolTest, ASubJobsExceptionIsThrownByTheWait) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    TaskGroup group(context);
    for (int i = 0; i < 100; ++i) {
      group.spawn([i](Context&) {
        if (i == 50) throw std::runtime_error("the fiftieth");
      });
    }
    group.wait();
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch), ::testing::ElementsAre(Row{0, JobStatus::error, "the fiftieth"}));
}

TEST_F(PoolTest, SubJobsKnowForWhomTheyRun) {
  BatchOptions options;
  options.id = "b-1";
  options.tenant = "alice";
  options.trace = "00-11-22-01";
  Handler& run = handler([](JobContext& context, std::string_view) {
    std::string seen;
    TaskGroup group(context);
    group.spawn([&](Context& inner) {
      seen = std::string(inner.batch_id()) + " " + std::string(inner.tenant()) + " " +
             std::string(inner.trace()) + " " + std::to_string(inner.index());
    });
    group.wait();
    context.write(seen);
  });
  auto batch = submit_range(run, 1, options);
  wait_over(*batch);
  EXPECT_EQ(rows_of(*batch).at(0).output, "b-1 alice 00-11-22-01 0");
}

TEST_F(PoolTest, LargeClosuresAreSpawnedToo) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    std::array<std::uint64_t, 64> numbers{};
    numbers[63] = 42;
    std::uint64_t seen = 0;
    TaskGroup group(context);
    group.spawn([numbers, &seen](Context&) { seen = numbers[63]; });
    group.wait();
    context.write(std::to_string(seen));
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  EXPECT_EQ(rows_of(*batch).at(0).output, "42");
}

TEST_F(PoolTest, AParallelLoopVisitsEveryIndexOnce) {
  constexpr std::uint64_t kSize = 300'000;
  std::vector<std::atomic<std::uint8_t>> visits(kSize);
  Handler& run = handler([&](JobContext& context, std::string_view) {
    context.parallel_for(0, kSize, [&](std::uint64_t i) { ++visits[i]; });
    context.parallel_for(7, 7, [&](std::uint64_t) { ADD_FAILURE(); });
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  for (std::uint64_t i = 0; i < kSize; ++i) ASSERT_EQ(visits[i], 1) << i;
}

TEST_F(PoolTest, AParallelLoopThrowsWhatABodyThrowsAndDropsTheRest) {
  std::atomic<std::uint64_t> visited{0};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    context.parallel_for(0, 1'000'000'000'000, [&](std::uint64_t i) {
      ++visited;
      if (i == 1000) throw std::runtime_error("at 1000");
    });
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  EXPECT_EQ(rows_of(*batch).at(0).output, "at 1000");
  EXPECT_GT(visited, 0u);
}

TEST_F(PoolTest, ACancelledBatchEndsItsParallelLoop) {
  Gate gate;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    gate.pass();
    context.parallel_for(0, ~std::uint64_t{0}, [](std::uint64_t) {});
    context.give_up();
  });
  auto batch = submit_range(run, 1);
  gate.await(1);
  gate.open();
  lane.cancel(*batch, "enough");
  wait_over(*batch);
  EXPECT_EQ(batch->status().cancelled, 1u);
}

TEST_F(PoolTest, SingleWorkIsRunInTurnWithTheBatches) {
  std::atomic<int> runs{0};
  for (int i = 0; i < 1000; ++i) {
    pool.post([&](Context& context) {
      TaskGroup group(context);
      for (int j = 0; j < 3; ++j) group.spawn([&](Context&) { ++runs; });
    });
  }
  wait_until([&] { return runs == 3000; }, "all posted work has run");
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
  Gate gate;
  Handler& run = handler([&](JobContext&, std::string_view) { gate.pass(); });
  auto batch = submit_range(run, 100);
  gate.await(2);
  std::thread opener([&] {
    std::this_thread::sleep_for(5ms);
    gate.open();
  });
  pool.stop();
  opener.join();
  EXPECT_FALSE(batch->is_over());
  EXPECT_EQ(batch->status().running, 0u);
  EXPECT_GT(batch->status().queued, 0u);
  pool.start(2);
  wait_over(*batch);
  EXPECT_EQ(batch->status().ok, 100u);
}

TEST_F(PoolTest, DrainTellsWhetherEverythingHasEnded) {
  Gate gate;
  auto batch = submit_range(handler([&](JobContext&, std::string_view) { gate.pass(); }), 1);
  gate.await(1);
  EXPECT_FALSE(pool.drain(steady_now() + 5ms));
  gate.open();
  EXPECT_TRUE(pool.drain(steady_now() + 30s));
  EXPECT_TRUE(batch->is_over());
}

TEST_F(PoolTest, ATailOfLongJobsIsSharedByStealing) {
  // The first jobs are so short that the rest is claimed in one go; the rest is long. Without stealing one
  // worker would run it all.
  std::mutex mutex;
  std::set<std::thread::id> threads;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.index() < 1000) return;
    std::this_thread::sleep_for(2ms);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  auto batch = submit_range(run, 1040);
  wait_over(*batch);
  EXPECT_EQ(threads.size(), 2u);
}

}  // namespace
}  // namespace locksley
