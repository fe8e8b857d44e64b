// The pool under disorder: bursts with rests in between (every rest a chance to lose a wake-up),
// batches of all shapes, submitted, cancelled, paused and re-weighted at random while workers come
// and go. Each batch must end, and its record must add up.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "core/lane/lane_view.h"
#include "core/tasks/parallel_for.h"
#include "core/tasks/task_group.h"
#include "tests/support/pool_fixture.h"
#include "tests/support/seed.h"
#include "tests/support/threads.h"

namespace locksley {
namespace {

using testing::PoolFixture;
using testing::wait_until;
using namespace std::chrono_literals;

class PoolStressTest : public PoolFixture {
 protected:
  PoolStressTest() : PoolFixture(4) {}
};

void work(Context& context, unsigned depth) {
  if (depth == 0) return;
  TaskGroup group(context);
  for (int i = 0; i < 3; ++i) group.spawn([depth](Context& inner) { work(inner, depth - 1); });
}

TEST_F(PoolStressTest, NoWakeUpIsLost) {
  // One job at a time to a pool at rest: if its wake-up were lost, the wait would never end.
  Handler& run = handler([](JobContext& context, std::string_view) { context.write("x"); });
  const auto end = std::chrono::steady_clock::now() + 2 * testing::stress_time();
  for (int i = 0; std::chrono::steady_clock::now() < end; ++i) {
    auto batch = submit_range(run, 1 + static_cast<std::uint64_t>(i % 3));
    const testing::Deadline deadline(60s);
    for (std::uint64_t spins = 0; !batch->is_over(); ++spins) {
      if (spins % 64 != 63) continue;
      std::this_thread::yield();
      ASSERT_FALSE(deadline.passed()) << "a job was never run: lost wake-up in round " << i;
    }
  }
}

TEST_F(PoolStressTest, NoWakeUpForASubJobIsLost) {
  // A job spawns one sub-job and does not wait, but spins until another worker has run it.
  std::atomic<int> ran{0};
  Handler& run = handler([&](JobContext& context, std::string_view) {
    TaskGroup group(context);
    const int before = ran.load();
    group.spawn([&](Context&) { ++ran; });
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (ran.load() == before) {
      if (std::chrono::steady_clock::now() > deadline) return context.fail("no worker came to steal");
      std::this_thread::yield();
    }
  });
  const auto end = std::chrono::steady_clock::now() + 2 * testing::stress_time();
  for (int i = 0; std::chrono::steady_clock::now() < end; ++i) {
    auto batch = submit_range(run, 1);
    wait_over(*batch);
    ASSERT_EQ(batch->status().ok, 1u) << "round " << i;
  }
}

// A job of any kind: its payload's last digit says which.
void run_any(JobContext& context, std::string_view payload) {
  switch (payload.back()) {
    case '1':
      return context.fail("one");
    case '2':
      throw std::runtime_error("two");
    case '3':
      return work(context, 4);
    case '4': {
      std::atomic<std::uint64_t> sum{0};
      context.parallel_for(0, 1000, [&](std::uint64_t i) { sum += i; });
      if (sum != 499'500 && !context.should_stop()) throw std::logic_error("a loop lost an index");
      return;
    }
    case '5':
      std::this_thread::yield();
      return context.give_up();
    default:
      context.write(payload);
  }
}

// Batches of all shapes, and what may happen to them.
class PoolDisorderTest : public PoolStressTest {
 protected:
  std::shared_ptr<Batch> submit_any(int round) {
    BatchOptions options;
    options.id = std::to_string(round);
    options.tenant = "t" + std::to_string(random() % 4);
    options.weight = 1 + static_cast<std::uint32_t>(random() % 5);
    options.slots = static_cast<std::uint32_t>(random() % 3);
    options.keep = static_cast<Keep>(random() % 3);
    if (random() % 5 == 0) options.max_fails = 1 + random() % 20;
    if (random() % 7 == 0) options.timeout = 1ms;
    auto batch = make(run, std::make_unique<RangePayloads>(0), options);
    const bool open = random() % 4 == 0;
    lane.submit(batch, random() % 700, open);
    if (open) {
      for (std::uint64_t i = random() % 4; i > 0; --i) lane.add_jobs(*batch, random() % 50);
      lane.close(*batch);
    }
    return batch;
  }

  void change(Batch& any) {
    switch (random() % 12) {
      case 0:
        lane.cancel(any, "at random");
        break;
      case 1:
        lane.pause(any);
        break;
      case 2:
        lane.set_weight(any, 1 + static_cast<std::uint32_t>(random() % 9));
        break;
      case 3:
        pool.set_workers(1 + static_cast<std::uint32_t>(random() % 6));
        break;
      case 4:
        std::this_thread::sleep_for(1ms);
        break;
      default:
        break;
    }
  }

  void check(const std::shared_ptr<Batch>& batch) {
    wait_over(*batch);
    const BatchStatus status = batch->status();
    ASSERT_EQ(status.jobs, status.ok + status.failed + status.cancelled) << batch->id();
    ASSERT_EQ(status.running + status.queued, 0u) << batch->id();
    const std::uint64_t kept = batch->options().keep == Keep::kAll        ? status.jobs
                               : batch->options().keep == Keep::kFailures ? status.failed + status.cancelled
                                                                          : 0;
    ASSERT_EQ(status.rows, kept) << batch->id();
    std::vector<bool> seen(status.jobs);
    for (const auto& row : testing::rows_of(*batch)) {
      ASSERT_FALSE(seen.at(row.index)) << batch->id() << ": job " << row.index << " has two results";
      seen[row.index] = true;
    }
  }

  std::mt19937_64 random{testing::stress_seed()};
  Handler& run = handler(run_any);
};

TEST_F(PoolDisorderTest, EveryBatchEndsAndItsRecordAddsUp) {
  std::vector<std::shared_ptr<Batch>> batches;
  const auto end = std::chrono::steady_clock::now() + 2 * testing::stress_time();
  for (int round = 0; std::chrono::steady_clock::now() < end; ++round) {
    batches.push_back(submit_any(round));
    change(*batches[random() % batches.size()]);
    if (random() % 3 == 0) {
      for (auto& batch : batches) lane.resume(*batch);
    }
  }
  for (auto& batch : batches) lane.resume(*batch);
  for (auto& batch : batches) ASSERT_NO_FATAL_FAILURE(check(batch));
  wait_until([&] { return lane.view().snapshot(0).executors == 0; }, "all turns are settled");
  EXPECT_EQ(lane.view().snapshot(0).queued, 0u);
}

}  // namespace
}  // namespace locksley
