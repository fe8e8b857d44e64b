// Sub-jobs on the pool: spawned, stolen, waited for; loops; what they throw and whom they run for.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/pool/pool.h"
#include "core/tasks/parallel_for.h"
#include "core/tasks/task_group.h"
#include "tests/support/gate.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::Gate;
using testing::PoolFixture;
using testing::Row;
using testing::rows_of;
using testing::wait_until;

class PoolTasksTest : public PoolFixture {};

std::uint64_t fib(Context& context, unsigned n) {
  if (n < 2) return n;
  std::uint64_t left = 0;
  TaskGroup group(context);
  group.spawn([&left, n](Context& inner) { left = fib(inner, n - 1); });
  const std::uint64_t right = fib(context, n - 2);
  group.wait();
  return left + right;
}

TEST_F(PoolTasksTest, SubJobsAreSpawnedStolenAndWaitedFor) {
  Handler& run =
      handler([](JobContext& context, std::string_view) { context.write(std::to_string(fib(context, 22))); });
  auto batch = submit_range(run, 3);
  wait_over(*batch);
  for (const Row& row : rows_of(*batch)) EXPECT_EQ(row.output, "17711");
  std::uint64_t tasks = 0;
  for (const WorkerSnapshot& worker : pool.snapshot()) tasks += worker.tasks;
  EXPECT_EQ(tasks, 3u * 28656u);  // one for each inner node of the call tree: fib(23) - 1
}

TEST_F(PoolTasksTest, ASubJobsExceptionIsThrownByTheWait) {
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
  EXPECT_THAT(rows_of(*batch), ::testing::ElementsAre(Row{0, JobStatus::kError, "the fiftieth"}));
}

TEST_F(PoolTasksTest, SubJobsKnowForWhomTheyRun) {
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

TEST_F(PoolTasksTest, LargeClosuresAreSpawnedToo) {
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

TEST_F(PoolTasksTest, AParallelLoopVisitsEveryIndexOnce) {
  constexpr std::uint64_t kSize = 300'000;
  std::vector<std::atomic<std::uint8_t>> visits(kSize);
  Handler& run = handler([&](JobContext& context, std::string_view) {
    context.parallel_for(0, kSize, [&](auto i) { ++visits[i]; });
    context.parallel_for(7, 7, [&](std::uint64_t) { ADD_FAILURE(); });
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  for (std::uint64_t i = 0; i < kSize; ++i) ASSERT_EQ(visits[i], 1) << i;
}

TEST_F(PoolTasksTest, AParallelLoopGivesABodyThatTakesRangesAllOfThem) {
  constexpr std::uint64_t kSize = 300'000;
  std::vector<std::uint8_t> visits(kSize);
  Handler& run = handler([&](JobContext& context, std::string_view) {
    context.parallel_for(5, kSize, [&](const IndexRange& burst) {
      EXPECT_FALSE(burst.empty());
      for (std::uint64_t i = burst.low; i < burst.high; ++i) ++visits[i];
    });
  });
  auto batch = submit_range(run, 1);
  wait_over(*batch);
  for (std::uint64_t i = 0; i < kSize; ++i) ASSERT_EQ(visits[i], i < 5 ? 0 : 1) << i;
}

// A body that is given the wrong worker's place would push its sub-jobs onto another thread's
// deque.
TEST_F(PoolTasksTest, ParallelLoopsNestAtThePlaceOfEachBurst) {
  constexpr std::uint64_t kOuter = 200;
  constexpr std::uint64_t kInner = 500;
  std::vector<std::uint8_t> visits(kOuter * kInner);
  std::mutex mutex;
  std::map<std::thread::id, std::set<const Spawner*>> places;
  Handler& run = handler([&](JobContext& context, std::string_view) {
    context.parallel_for(0, kOuter, [&](Context& here, const IndexRange& burst) {
      {
        const std::lock_guard lock(mutex);
        places[std::this_thread::get_id()].insert(&here.spawner());
      }
      wait_until(
          [&] {
            const std::lock_guard lock(mutex);
            return places.size() == 2;
          },
          "both workers take part");
      here.parallel_for(burst.low * kInner, burst.high * kInner, [&](std::uint64_t i) { ++visits[i]; });
    });
  });
  wait_over(*submit_range(run, 1));
  EXPECT_EQ(std::ranges::count(visits, 1), std::ssize(visits));
  std::set<const Spawner*> workers;
  for (const auto& [thread, its] : places) {
    EXPECT_EQ(its.size(), 1u) << "a thread is one worker";
    workers.insert(its.begin(), its.end());
  }
  EXPECT_EQ(workers.size(), places.size()) << "and a worker one thread";
}

TEST_F(PoolTasksTest, AParallelLoopThrowsWhatABodyThrowsAndDropsTheRest) {
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

TEST_F(PoolTasksTest, ACancelledBatchEndsItsParallelLoop) {
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

TEST_F(PoolTasksTest, AThiefVisitsTheRingBetweenSubJobsThatUsedUpItsQuantum) {
  // One worker is held in the job that spawned; the other steals, and finds a batch of another job
  // in the ring after its first sub-job.
  Gate gate;
  std::atomic<int> begun{0};
  std::atomic<int> begun_before_other{0};
  Handler& other = handler([&](JobContext&, std::string_view) { begun_before_other = begun.load(); });
  std::shared_ptr<Batch> second;
  std::atomic<bool> submitted{false};
  Handler& spawner = handler([&](JobContext& context, std::string_view) {
    TaskGroup group(context);
    for (int i = 0; i < 20; ++i) {
      group.spawn([&](Context&) {
        if (begun++ == 0) {
          second = submit_range(other, 1);
          submitted = true;
        }
        std::this_thread::sleep_for(2 * lane.quantum());
      });
    }
    gate.pass();
  });
  auto first = submit_range(spawner, 1);
  wait_until([&] { return submitted.load(); }, "a sub-job was stolen");
  wait_over(*second);
  gate.open();
  wait_over(*first);
  EXPECT_EQ(begun_before_other, 1);
}

TEST_F(PoolTasksTest, EveryStealIsCountedWithItsVictim) {
  Handler& run = handler([](JobContext& context, std::string_view) {
    TaskGroup group(context);
    std::atomic<bool> stolen{false};
    group.spawn([&](Context&) { stolen = true; });
    wait_until([&] { return stolen.load(); }, "the sub-job is stolen");
    group.wait();
  });
  for (int i = 0; i < 3; ++i) wait_over(*submit_range(run, 1));
  std::map<std::uint32_t, std::uint64_t> of_pairs;
  for (const Pool::StealPair& pair : pool.steal_pairs()) {
    EXPECT_NE(pair.thief, pair.victim);
    EXPECT_GT(pair.steals, 0u);
    of_pairs[pair.thief] += pair.steals;
  }
  std::uint64_t all = 0;
  for (const WorkerSnapshot& worker : pool.snapshot()) {
    EXPECT_EQ(of_pairs[worker.worker], worker.steals) << worker.worker;
    all += worker.steals;
  }
  EXPECT_GE(all, 3u);
}

TEST_F(PoolTasksTest, AParallelLoopRunsInAPoolThatIsBeingStopped) {
  std::atomic<bool> started{false};
  std::atomic<bool> go{false};
  std::atomic<std::uint64_t> sum{0};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    started = true;
    while (!go) std::this_thread::yield();
    context.parallel_for(0, 1000, [&](std::uint64_t i) { sum += i; });
  });
  auto batch = submit_range(run, 1);
  wait_until([&] { return started.load(); }, "the job runs");
  std::thread stopper([&] { pool.stop(); });
  wait_until([&] { return pool.workers() == 0; }, "the pool is being stopped");
  go = true;
  stopper.join();
  EXPECT_EQ(sum, 499'500u);
  EXPECT_TRUE(batch->is_over());
}

class SixWorkersTest : public PoolFixture {
 protected:
  SixWorkersTest() : PoolFixture(6) {}
};

TEST_F(SixWorkersTest, ABurstOfTasksReachesEveryFreeWorkerWhileItsSpawnerIsBusy) {
  // Two workers wait for a task of theirs that two others run; one spawns a burst and then runs
  // nothing; the last one has nothing to do. So three are free, whether parked or not.
  std::atomic<int> held{0};
  std::atomic<int> started{0};
  Gate long_tasks;
  Handler& run = handler([&](JobContext& context, std::string_view payload) {
    TaskGroup group(context);
    if (payload != "2") {
      group.spawn([&](Context&) {
        ++held;
        long_tasks.pass();
      });
      wait_until([&] { return held == 2; }, "both tasks are stolen");
      group.wait();
      return;
    }
    wait_until([&] { return held == 2; }, "both tasks are stolen");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time to park, which is what makes it hard
    for (int i = 0; i < 4; ++i) {
      group.spawn([&](Context&) {
        ++started;
        long_tasks.pass();
      });
    }
    wait_until([&] { return started == 3; }, "every free worker has one");
    long_tasks.open();
  });
  auto batch = submit_range(run, 3);
  wait_over(*batch);
  EXPECT_EQ(started, 4);
}

}  // namespace
}  // namespace locksley
