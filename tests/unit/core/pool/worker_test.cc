// A worker's life: what it steals and who pays for it, when it parks, and what can be seen of it
// meanwhile.
#include "core/pool/worker.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/lane/lane_view.h"
#include "core/pool/pool.h"
#include "core/tasks/task_group.h"
#include "tests/support/gate.h"
#include "tests/support/patchy_payloads.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::AwayPayloads;
using testing::Gate;
using testing::PatchyPayloads;
using testing::PoolFixture;
using testing::Row;
using testing::rows_of;
using testing::spin_for;
using testing::wait_until;
using namespace std::chrono_literals;

class WorkerTest : public PoolFixture {
 protected:
  explicit WorkerTest(std::uint32_t workers = 2, Nanoseconds quantum = 1ms) : PoolFixture(workers, quantum) {}
  void wait_settled() {
    wait_until(
        [&] {
          const RingSnapshot ring = lane.view().snapshot(0);
          return ring.queued == 0 && ring.claimed == 0 && ring.executors == 0;
        },
        "all turns are settled");
  }
  // The time of all turns of the default tenant, which the pool's own queue keeps in the ring.
  Nanoseconds charged() { return lane.view().snapshot(0).tenants.at(0).busy; }
  std::uint64_t sum_of(std::uint64_t WorkerSnapshot::* counter) {
    std::uint64_t sum = 0;
    for (const WorkerSnapshot& worker : pool.snapshot()) sum += worker.*counter;
    return sum;
  }
};

// ---- What is stolen is paid for ----

TEST_F(WorkerTest, TheTimeOfAStolenSubJobIsChargedToItsBatch) {
  constexpr Nanoseconds kLong = 5ms;
  const Nanoseconds began = steady_now();
  Handler& run = handler([&](JobContext& context, std::string_view) {
    std::atomic<bool> stolen{false};
    TaskGroup group(context);
    group.spawn([&](Context&) {
      stolen = true;
      spin_for(kLong);
    });
    wait_until([&] { return stolen.load(); }, "the sub-job is stolen");
    group.wait();
  });
  wait_over(*submit_range(run, 1));
  wait_settled();
  // The job waited for its sub-job, so both workers were busy as long as that ran.
  const Nanoseconds elapsed = steady_now() - began;
  EXPECT_GE(charged(), 2 * kLong);
  EXPECT_LE(charged(), 2 * elapsed);
  const auto busy = Nanoseconds{static_cast<std::int64_t>(sum_of(&WorkerSnapshot::busy_ns))};
  EXPECT_GE(busy, 2 * kLong);
  EXPECT_LE(busy, 2 * elapsed);
  EXPECT_EQ(sum_of(&WorkerSnapshot::turn_ns), 0u) << "no turn runs";
}

TEST_F(WorkerTest, TheTimeOfAStolenRangeIsChargedToItsBatch) {
  constexpr Nanoseconds kLong = 5ms;
  const Nanoseconds began = steady_now();
  // The first are so quick that the rest is claimed in one go, and one worker steals from the
  // other.
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.index() >= 1000) spin_for(kLong);
  });
  wait_over(*submit_range(run, 1010));
  wait_settled();
  EXPECT_GE(charged(), 10 * kLong);
  EXPECT_LE(charged(), 2 * (steady_now() - began));
}

TEST_F(WorkerTest, AStealIsCountedWithWhatItGot) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    std::atomic<int> stolen{0};
    TaskGroup group(context);
    group.spawn([&](Context&) { ++stolen; });
    wait_until([&] { return stolen == 1; }, "the sub-job is stolen");
    group.wait();
  });
  wait_over(*submit_range(run, 1));
  wait_settled();
  EXPECT_EQ(sum_of(&WorkerSnapshot::steals), 1u);
  EXPECT_EQ(sum_of(&WorkerSnapshot::stolen), 1u);
  EXPECT_GE(sum_of(&WorkerSnapshot::steal_attempts), 1u);
  EXPECT_EQ(sum_of(&WorkerSnapshot::tasks), 1u);
  EXPECT_EQ(sum_of(&WorkerSnapshot::jobs), 1u);
  EXPECT_GE(sum_of(&WorkerSnapshot::claims), 1u);
}

// ---- At rest ----

TEST_F(WorkerTest, AStealThatFoundNothingLetsTheWorkerPark) {
  wait_until(
      [&] {
        const auto workers = pool.snapshot();
        return std::ranges::all_of(workers, [](const WorkerSnapshot& worker) { return worker.parks > 0; });
      },
      "every worker of an idle pool has parked");
  EXPECT_TRUE(pool.has_free_worker());
  wait_over(*submit_range(handler([](JobContext&, std::string_view) {}), 1));
  wait_until([&] { return pool.has_free_worker(); }, "it has nothing to run again");
}

TEST_F(WorkerTest, ATurnCanBeSeenWhileItRunsAndProgressWhenItHasEnded) {
  const Nanoseconds began = steady_now();
  EXPECT_FALSE(pool.progress().has_work);
  Gate gate;
  auto batch = submit_range(handler([&](JobContext&, std::string_view) { gate.pass(); }), 1);
  gate.await(1);
  EXPECT_TRUE(pool.progress().has_work) << "a worker is busy";
  EXPECT_GT(sum_of(&WorkerSnapshot::turn_ns), 0u);
  EXPECT_LE(sum_of(&WorkerSnapshot::turn_ns), static_cast<std::uint64_t>((steady_now() - began).count()));
  const Nanoseconds opened = steady_now();
  EXPECT_LT(pool.progress().last_progress.time_since_epoch(), opened);
  gate.open();
  wait_over(*batch);
  wait_settled();
  EXPECT_GE(pool.progress().last_progress.time_since_epoch(), opened);
  EXPECT_LE(pool.progress().last_progress.time_since_epoch(), steady_now());
  EXPECT_FALSE(pool.progress().has_work);
}

// ---- Results of jobs that ended ----

class OneWorkerTest : public WorkerTest {
 protected:
  OneWorkerTest() : WorkerTest(1, 10s) {}
};

TEST_F(OneWorkerTest, AResultIsPublishedOnceItIsHalfAMillisecondOld) {
  std::shared_ptr<Batch> batch;
  std::vector<std::uint64_t> visible;
  Handler& run = handler([&](JobContext&, std::string_view) {
    visible.push_back(batch->status().ok);
    spin_for(600us);
  });
  batch = make(run, std::make_unique<RangePayloads>(0));
  lane.submit(batch, 100, /*open=*/false);
  wait_over(*batch);
  std::vector<std::uint64_t> all_before(100);
  std::iota(all_before.begin(), all_before.end(), 0u);
  EXPECT_EQ(visible, all_before) << "each job sees the results of all before it";
}

TEST_F(OneWorkerTest, ALongJobHoldsNoResultBackThoughTheMonitorSlept) {
  std::this_thread::sleep_for(60ms);  // time for the monitor to fall asleep, which is what makes it hard
  Gate gate;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.index() == 400) gate.pass();
  });
  auto batch = submit_range(run, 401);
  gate.await(1);
  wait_until([&] { return batch->status().ok == 400; }, "all results before the long job are published");
  gate.open();
  wait_over(*batch);
}

TEST_F(OneWorkerTest, EveryJobsDurationIsObserved) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    if (context.index() == 500) spin_for(20ms);
  });
  wait_over(*submit_range(run, 1000));
  wait_settled();
  const DurationHistogram::Snapshot durations = run.stats.job_duration.snapshot();
  EXPECT_EQ(std::accumulate(durations.counts.begin(), durations.counts.end(), std::uint64_t{0}), 1000u);
  EXPECT_GE(durations.sum_seconds, 0.02);
  EXPECT_LE(durations.sum_seconds, std::chrono::duration<double>(charged()).count());
}

TEST_F(OneWorkerTest, ATimeLimitIsCountedFromTheStartOfTheJob) {
  BatchOptions options;
  options.timeout = 1h;
  Handler& run = handler([](JobContext& context, std::string_view) {
    context.write(context.should_stop() ? "should stop" : "may run");
  });
  auto batch = submit_range(run, 2, options);
  wait_over(*batch);
  for (const Row& row : rows_of(*batch)) EXPECT_EQ(row.output, "may run");
  EXPECT_EQ(batch->status().ok, 2u);
}

TEST_F(OneWorkerTest, AJobThatEndsWellAfterItsTimeHasTimedOut) {
  BatchOptions options;
  options.timeout = 1ms;
  Handler& run = handler([](JobContext& context, std::string_view) {
    context.write("too late");
    spin_for(2ms);
    if (context.index() == 1) context.fail("by itself");
  });
  auto batch = submit_range(run, 2, options);
  wait_over(*batch);
  EXPECT_THAT(rows_of(*batch), ::testing::ElementsAre(Row{0, JobStatus::kTimeout, "timed out"},
                                                      Row{1, JobStatus::kError, "by itself"}));
}

// Payloads of which those from `bad` on cannot be read.
class TornPayloads final : public PayloadSource {
 public:
  explicit TornPayloads(std::uint64_t bad) : bad_(bad) {}
  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string&) override {
    if (first + out.size() > bad_) throw std::runtime_error("torn");
    std::ranges::fill(out, "whole");
    return out.size();
  }
  std::uint64_t memory_bytes() const override { return 0; }

 private:
  const std::uint64_t bad_;
};

TEST_F(OneWorkerTest, JobsWhosePayloadsCannotBeReadFailOneByOne) {
  auto batch = make(handler([](JobContext& context, std::string_view payload) { context.write(payload); }),
                    std::make_unique<TornPayloads>(0));
  lane.submit(batch, 3, /*open=*/false);
  wait_over(*batch);
  const std::vector<Row> rows = rows_of(*batch);
  ASSERT_EQ(rows.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rows[i].index, i);
    EXPECT_EQ(rows[i].status, JobStatus::kError);
    EXPECT_THAT(rows[i].output, ::testing::HasSubstr("torn"));
  }
  wait_settled();
  EXPECT_EQ(sum_of(&WorkerSnapshot::jobs), 3u);
}

TEST_F(OneWorkerTest, APayloadThatCannotBeReadFailsItsOwnJobAlone) {
  constexpr std::uint64_t kJobs = 5'000;  // enough for bursts of many jobs
  constexpr std::uint64_t kHole = 4'000;
  auto batch = make(handler([](JobContext& context, std::string_view payload) { context.write(payload); }),
                    std::make_unique<PatchyPayloads>(kHole));
  lane.submit(batch, kJobs, /*open=*/false);
  wait_over(*batch);
  EXPECT_EQ(batch->status().ok, kJobs - 1);
  const std::vector<Row> rows = rows_of(*batch);
  ASSERT_EQ(rows.size(), kJobs);
  EXPECT_EQ(rows[kHole], (Row{kHole, JobStatus::kError, "cannot read the payload: lost"}));
}

TEST_F(OneWorkerTest, ABatchPausesWhileItsPayloadsCannotBeRead) {
  constexpr std::uint64_t kJobs = 5'000;
  std::atomic<std::uint64_t> first_away = 3'000;
  auto batch =
      make(handler([](JobContext&, std::string_view) {}), std::make_unique<AwayPayloads>(first_away));
  lane.submit(batch, kJobs, /*open=*/false);
  wait_until([&] { return batch->status().ok == 3'000; }, "those that can be read have run");
  wait_over(*submit_range(handler([](JobContext&, std::string_view) {}), 1));
  EXPECT_EQ(batch->status().failed, 0U);
  wait_until([&] { return lane.view().batch(*batch).backoff == Backoff::kNoPayloads; },
             "the batch pauses, once more");
  first_away = kJobs;
  wait_over(*batch);
  EXPECT_EQ(batch->status().ok, kJobs);
}

TEST_F(OneWorkerTest, ABatchOfWhichNoPayloadCanBeReadHasNotStarted) {
  std::atomic<std::uint64_t> first_away = 0;
  auto batch =
      make(handler([](JobContext&, std::string_view) {}), std::make_unique<AwayPayloads>(first_away));
  lane.submit(batch, 1, /*open=*/false);
  wait_until([&] { return lane.view().batch(*batch).backoff == Backoff::kNoPayloads; }, "the batch pauses");
  EXPECT_EQ(batch->status().state, BatchState::kQueued);
  EXPECT_EQ(batch->status().started_at, 0);
  first_away = 1;
  wait_over(*batch);
  EXPECT_NE(batch->status().started_at, 0);
}

// ---- The pool ----

TEST_F(WorkerTest, ADrainThatGivesUpHasWaitedUntilItsDeadline) {
  Gate gate;
  auto batch = submit_range(handler([&](JobContext&, std::string_view) { gate.pass(); }), 1);
  gate.await(1);
  EXPECT_FALSE(pool.drain(std::chrono::steady_clock::now() - 1s)) << "the deadline has passed";
  const auto deadline = std::chrono::steady_clock::now() + 20ms;
  EXPECT_FALSE(pool.drain(deadline));
  EXPECT_GE(std::chrono::steady_clock::now(), deadline);
  gate.open();
  EXPECT_TRUE(pool.drain(std::chrono::steady_clock::now() + 30s));
  EXPECT_TRUE(batch->is_over());
  EXPECT_TRUE(pool.drain(std::chrono::steady_clock::now() - 1s)) << "nothing is left to wait for";
}

TEST_F(WorkerTest, TheQuantumIsThatOfTheLane) {
  pool.set_quantum(7ms);
  EXPECT_EQ(lane.quantum(), 7ms);
}

TEST_F(WorkerTest, ThePoolIsAsLargeAsItWasLastTold) {
  EXPECT_EQ(pool.workers(), 2u);
  pool.set_workers(5);
  EXPECT_EQ(pool.workers(), 5u);
  pool.set_workers(3);
  EXPECT_EQ(pool.workers(), 3u);
  EXPECT_EQ(pool.snapshot().size(), 3u);
  pool.stop();
  EXPECT_EQ(pool.workers(), 0u);
  pool.start(4);
  EXPECT_EQ(pool.workers(), 4u);
}

TEST_F(WorkerTest, APoolHasAtLeastOneWorkerAndOneThatIsNotReserved) {
  pool.stop();
  EXPECT_THROW(pool.start(0), std::invalid_argument);
  EXPECT_THROW(pool.start(2, 2), std::invalid_argument);
  EXPECT_THROW(pool.start(Pool::kMaxWorkers + 1), std::invalid_argument);
  pool.start(3, 2);
  EXPECT_EQ(pool.reserved(), 2u);
  wait_over(*submit_range(handler([](JobContext&, std::string_view) {}), 100));
}

// A worker whose number is that of the first that is not reserved serves everybody.
TEST_F(WorkerTest, OnlyTheReservedAreKeptForShortJobs) {
  pool.stop();
  pool.start(3, 1);
  Gate gate;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    if (context.index() == 0) return spin_for(5ms);  // longer than a quantum: the batch is known for it
    gate.pass();
  });
  auto longs = submit_range(run, 20);
  gate.await(2);
  // The reserved worker may run the first job, of which nothing is known, and no other.
  wait_until([&] { return longs->status().running == 2; },
             "both others run a long job, and the reserved none");
  gate.open();
  wait_over(*longs);
}

}  // namespace
}  // namespace locksley
