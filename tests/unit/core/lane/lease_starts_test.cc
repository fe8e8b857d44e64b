// Which starts of a rate the jobs of leases use.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/external_executor.h"
#include "core/lane/lane_gates.h"
#include "core/lane/lane_groups.h"
#include "core/lane/lease.h"

namespace locksley {
namespace {

using std::chrono::hours;

// Jobs of a tenant that may start one in an hour, so all starts of a test are within one interval.
class LeaseStartsTest : public ::testing::Test {
 protected:
  LeaseStartsTest() {
    lane.gates().set_remote(0, true);
    lane.groups().set_tenant_limits("default", {.start_interval = kInterval});
    lane.submit(batch, 10, /*open=*/false);
  }
  ~LeaseStartsTest() override { lane.cancel(*batch, "enough"); }
  LeaseStartsTest(const LeaseStartsTest&) = delete;
  LeaseStartsTest& operator=(const LeaseStartsTest&) = delete;

  // How many starts the rate counts as used, while the rest of the jobs waits for it.
  std::int64_t used() {
    const auto next = lane.end_waits(steady_now());
    return next ? (*next - began + kInterval / 2) / kInterval : 0;
  }
  void end_first(std::uint64_t index) {
    const std::vector<std::string_view> outputs{"x"};
    EXPECT_EQ(lease.end_jobs(JobStatus::kOk, index, outputs, losses), 1U);
  }

  static constexpr Nanoseconds kInterval = hours(1);
  const Nanoseconds began = steady_now();
  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  Lane lane{"remote", {.share = Share::kJobs, .quantum = std::chrono::seconds(1), .parallelism = 1}};
  std::shared_ptr<Batch> batch =
      std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
  LeaseBuffers buffers;
  LossCounts losses{3};
  Lease lease{lane, buffers}, other{lane, buffers};
};

TEST_F(LeaseStartsTest, AJobThatHasBegunAndGoesBackHasUsedItsStart) {
  ASSERT_TRUE(lease.claim({}));
  lease.begin();
  lease.set_started(1);
  EXPECT_EQ(lease.settle(Nanoseconds(1)), 1U);
  EXPECT_FALSE(lease.claim({})) << "the next start is an hour later";
  EXPECT_EQ(used(), 1);
}

TEST_F(LeaseStartsTest, AJobThatGoesBackBeforeItHasBegunHasUsedNone) {
  ASSERT_TRUE(lease.claim({}));
  EXPECT_EQ(lease.settle(Nanoseconds(1)), 1U);
  EXPECT_TRUE(other.claim({}));
}

TEST_F(LeaseStartsTest, OfATailThatGoesBackOnlyTheJobsThatHaveBegunHaveUsedTheirStarts) {
  ASSERT_TRUE(lease.reclaim(*batch, {0, 5}, 1, 1, losses));
  EXPECT_EQ(used(), 5);
  lease.set_started(2);
  EXPECT_EQ(lease.give_back(1), 4U);
  EXPECT_EQ(used(), 2);
  EXPECT_EQ(lease.settle(Nanoseconds(1)), 1U);
  EXPECT_EQ(used(), 1) << "it was not said again that the first one has begun";
}

TEST_F(LeaseStartsTest, AJobThatIsLostWhileItRunsHasUsedItsStartOnce) {
  ASSERT_TRUE(lease.claim({}));
  const std::uint64_t index = lease.range().low;
  lease.begin();
  lease.set_started(1);
  EXPECT_EQ(lease.lose(Nanoseconds(1), 1, losses).counted, 1U);
  EXPECT_EQ(used(), 1);
  ASSERT_TRUE(lease.reclaim(*batch, {index, index + 1}, 1, 1, losses)) << "its machine still runs it";
  end_first(index);
  lease.settle(Nanoseconds(1));
  EXPECT_EQ(used(), 1);
}

TEST_F(LeaseStartsTest, AJobThatEndedAsCrashedHasUsedOneStartOfItsLastLease) {
  LossCounts one_loss{1};
  ASSERT_TRUE(lease.reclaim(*batch, {0, 2}, 1, 1, one_loss));
  lease.begin();
  lease.set_started(1);
  EXPECT_EQ(lease.lose(Nanoseconds(1), 1, one_loss).crashed, 1U);
  EXPECT_EQ(used(), 1) << "the second job had not begun";
}

TEST_F(LeaseStartsTest, TheSameHoldsForProgramsThatRunJobsInAnyOrder) {
  ExternalExecutor executor(lane);
  ASSERT_TRUE(executor.begin_turn(10, ~std::size_t{0}));
  executor.allow_any_order();
  ASSERT_TRUE(executor.start_job());
  executor.end_turn();
  EXPECT_EQ(used(), 1);
}

}  // namespace
}  // namespace locksley
