// A pool whose batches' results reach their limit.
#include <gtest/gtest.h>

#include <string>

#include "core/base/result_account.h"
#include "core/lane/lane_groups.h"
#include "core/lane/lane_view.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

constexpr std::uint64_t kOutput = 10'000;
constexpr std::uint64_t kLimit = 1'000'000;

class ResultLimitTest : public testing::PoolFixture {
 protected:
  ResultLimitTest() {
    account.set_limit(kLimit);
    account.on_change([this] { lane.groups().reopen_tenants(); });
  }
  std::shared_ptr<Batch> submit(std::uint64_t jobs) {
    Handler& run =
        handler([](JobContext& context, std::string_view) { context.write(std::string(kOutput, 'x')); });
    BatchOptions options;
    options.results = &account;
    return submit_range(run, jobs, options);
  }
  void wait_until_nothing_runs(const Batch& batch) {
    testing::wait_until([&] { return account.is_full() && !lane.view().has_claims(batch); },
                        "nothing runs any more");
  }

  // Destroyed after the batches.
  ResultAccount account;
};

TEST_F(ResultLimitTest, JobsThatRunMayFinishAndNoneBegins) {
  const auto batch = submit(100'000);
  wait_until_nothing_runs(*batch);
  EXPECT_FALSE(batch->is_over());
  // A publication of each worker, which is at most 64 KiB and one job's output.
  EXPECT_LE(account.bytes(), kLimit + 2 * (64 * 1024 + 2 * kOutput));
  EXPECT_EQ(batch->status().running, 0U);
  EXPECT_TRUE(lane.view().batch(*batch).results_at_limit);
  lane.cancel(*batch, "enough");
  wait_over(*batch);
}

TEST_F(ResultLimitTest, ABatchGoesOnWhenRowsAreDropped) {
  const auto batch = submit(500);
  while (!batch->is_over()) {
    testing::wait_until(
        [&] { return batch->is_over() || (account.is_full() && !lane.view().has_claims(*batch)); },
        "the batch is over, or waits");
    batch->drop_rows_before(batch->status().rows);
  }
  EXPECT_EQ(batch->status().ok, 500U);
}

TEST_F(ResultLimitTest, AnotherBatchOfTheAccountWaitsAsWell) {
  const auto batch = submit(100'000);
  wait_until_nothing_runs(*batch);
  const auto next = submit(1);
  EXPECT_EQ(next->status().ok, 0U);
  lane.cancel(*batch, "enough");
  wait_over(*batch);
  EXPECT_FALSE(next->is_over());
  batch->drop_rows_before(batch->status().rows);
  wait_over(*next);
}

TEST_F(ResultLimitTest, ARefundGivesBackAllThatABatchHasCharged) {
  const auto batch = submit(3);
  wait_over(*batch);
  EXPECT_GE(account.bytes(), 3 * kOutput);
  batch->refund_results();
  EXPECT_EQ(account.bytes(), 0U);
}

}  // namespace
}  // namespace locksley
