// Calls of a pool that break its rules end the process with a message that names the rule.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "core/tasks/context.h"

namespace locksley {
namespace {

using namespace std::chrono_literals;

TEST(PoolDeathTest, ALaneHasOnePoolAtATime) {
  Lane lane("a lane", {});
  {
    Pool before(lane);
  }
  Pool pool(lane);
  EXPECT_DEATH(Pool second(lane), "a lane gets a second pool");
}

// In a process of its own, since a process with threads cannot be forked.
class PoolCallersDeathTest : public ::testing::TestWithParam<void (*)(Pool&)> {
 protected:
  PoolCallersDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(PoolCallersDeathTest, AWorkerDoesNotWaitForItself) {
  const auto call = [] {
    Lane lane("a lane", {});
    Pool pool(lane);
    pool.start(2);
    pool.post([&](Context&) { GetParam()(pool); });
    std::this_thread::sleep_for(30s);  // the process ends before
  };
  EXPECT_DEATH(call(), "a worker calls stop");
}

INSTANTIATE_TEST_SUITE_P(All, PoolCallersDeathTest,
                         ::testing::Values([](Pool& pool) { pool.stop(); },
                                           [](Pool& pool) { pool.set_workers(1); },
                                           [](Pool& pool) { (void)pool.drain(Instant::clock::now()); }));

}  // namespace
}  // namespace locksley
