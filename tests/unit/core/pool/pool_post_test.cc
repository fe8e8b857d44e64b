// Functions posted to the pool: that they run, what becomes of their exceptions; and what does not
// compile.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/lane/lane_view.h"
#include "core/pool/pool.h"
#include "core/sync/mutex.h"
#include "core/tasks/task_group.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::PoolFixture;
using testing::wait_until;
using namespace std::chrono_literals;

// An instant is not a duration: drain(5s) would return at once and have done nothing.
template <class Deadline>
concept CanDrainUntil = requires(Pool& pool, Deadline deadline) { pool.drain(deadline); };
static_assert(CanDrainUntil<std::chrono::steady_clock::time_point>);
static_assert(!CanDrainUntil<std::chrono::seconds>);
static_assert(!CanDrainUntil<Nanoseconds>);
static_assert(!CanDrainUntil<std::chrono::system_clock::time_point>);

class PoolPostTest : public PoolFixture {};

TEST_F(PoolPostTest, FunctionsRunInTurnWithTheBatches) {
  std::atomic<int> runs{0};
  for (int i = 0; i < 1000; ++i) {
    pool.post([&](Context& context) {
      TaskGroup group(context);
      for (int j = 0; j < 3; ++j) group.spawn([&](Context&) { ++runs; });
    });
  }
  wait_until([&] { return runs == 3000; }, "all posted functions have run");
  EXPECT_EQ(lane.view().snapshot(0).queues, 0u) << "which is nobody's batch";
}

TEST_F(PoolPostTest, ExceptionsReachTheProgram) {
  Mutex mutex;
  std::vector<std::string> errors;
  pool.on_post_error([&](std::exception_ptr exception) {
    try {
      std::rethrow_exception(std::move(exception));
    } catch (const std::exception& error) {
      const MutexLock lock(mutex);
      errors.emplace_back(error.what());
    } catch (int number) {
      const MutexLock lock(mutex);
      errors.push_back(std::to_string(number));
    }
  });
  std::atomic<bool> ran{false};
  pool.set_workers(1);  // so that they run in order
  pool.post([](Context&) { throw std::runtime_error("no luck"); });
  pool.post([](Context&) { throw 7; });
  pool.post([](Context& context) {
    TaskGroup group(context);
    group.spawn([](Context&) { throw std::logic_error("in a sub-job"); });
    group.wait();
  });
  pool.post([&](Context&) { ran = true; });
  wait_until([&] { return ran.load(); }, "the pool goes on");
  const MutexLock lock(mutex);
  EXPECT_EQ(errors, (std::vector<std::string>{"no luck", "7", "in a sub-job"}));
}

using PoolPostDeathTest = PoolPostTest;

TEST_F(PoolPostDeathTest, AnExceptionThatNobodyTakesEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        pool.post([](Context&) { throw std::runtime_error("unhandled in a posted function"); });
        wait_until([] { return false; }, "the process has ended");
      },
      "unhandled in a posted function");
}

}  // namespace
}  // namespace locksley
