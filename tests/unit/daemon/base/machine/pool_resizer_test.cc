#include "daemon/base/machine/pool_resizer.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <memory>

#include "tests/support/gate.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

class PoolResizerTest : public testing::PoolFixture {
 protected:
  PoolResizerTest() : PoolFixture(/*workers=*/3) {}
  std::unique_ptr<PoolResizer> make_resizer() {
    return std::make_unique<PoolResizer>(pool, std::make_shared<spdlog::logger>("test"));
  }
};

TEST_F(PoolResizerTest, ThePoolGetsTheNumberThatItWasLastTold) {
  auto resizer = make_resizer();
  for (const std::uint32_t workers : {5U, 1U, 2U}) resizer->resize(workers);
  resizer.reset();
  EXPECT_EQ(pool.workers(), 2U);
}

// While a worker is still to leave, the pool has the smaller number already. Being told it once
// more is no reason to forget that another number was to come before.
TEST_F(PoolResizerTest, AlsoWhileAChangeWaitsForAJob) {
  testing::Gate gate;
  const auto batch = submit_range(handler([&](JobContext&, std::string_view) { gate.pass(); }), 3);
  gate.await(3);
  auto resizer = make_resizer();
  resizer->resize(1);
  testing::wait_until([&] { return pool.workers() == 1; }, "the first change has begun");
  resizer->resize(3);
  resizer->resize(1);
  gate.open();
  resizer.reset();
  EXPECT_EQ(pool.workers(), 1U);
  wait_over(*batch);
}

}  // namespace
}  // namespace locksley::daemon
