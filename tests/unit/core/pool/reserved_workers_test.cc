// Workers that are kept for brief jobs.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/pool/pool.h"
#include "tests/support/gate.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::Gate;
using testing::PoolFixture;
using testing::wait_until;
using namespace std::chrono_literals;

class ReservedWorkersTest : public PoolFixture {
 protected:
  void SetUp() override { pool.start(2, 1); }
  static void echo(JobContext& context, std::string_view payload) { context.write(payload); }
};

TEST_F(ReservedWorkersTest, AShortJobRunsWhileLongOnesHoldEveryOtherWorker) {
  Gate gate;
  Handler& hold = handler([&](JobContext&, std::string_view payload) {
    if (payload != "0") gate.pass();
    std::this_thread::sleep_for(3ms);  // longer than a quantum, so that the batch is known for its long jobs
  });
  auto longs = submit_range(hold, 20);
  gate.await(1);
  // Batches of one job each: of a batch of several, one during which its worker was held up would
  // be known for long jobs.
  Handler& brief = handler(echo);
  std::vector<std::shared_ptr<Batch>> shorts;
  for (int i = 0; i < 100; ++i) shorts.push_back(submit_range(brief, 1));
  for (const auto& each : shorts) wait_over(*each);
  EXPECT_FALSE(longs->is_over());
  EXPECT_EQ(longs->status().running, 1u) << "the reserved worker took a long job";
  gate.open();
  wait_over(*longs);
}

TEST_F(ReservedWorkersTest, ThereIsAlwaysOneThatServesAll) {
  EXPECT_THROW(pool.set_workers(1), std::invalid_argument);
  pool.set_workers(3);
  auto batch = submit_range(handler(echo), 1000);
  wait_over(*batch);
}

TEST_F(ReservedWorkersTest, JobsAreBriefIfTheyFitIntoTheQuantum) {
  Gate gate;
  Handler& hold = handler([&](JobContext&, std::string_view payload) {
    if (payload != "0") gate.pass();
    std::this_thread::sleep_for(3ms);
  });
  auto batch = submit_range(hold, 3);
  gate.await(1);
  wait_until([&] { return !lane.hints().has_work(ClaimFilter::kBrief); },
             "the ring knows how long its jobs are");
  EXPECT_TRUE(lane.hints().has_work());
  std::this_thread::sleep_for(20ms);  // the reserved worker parks, so that it has to be woken
  pool.set_quantum(1h);
  gate.await(2);
  gate.open();
  wait_over(*batch);
}

}  // namespace
}  // namespace locksley
