// An external executor whose jobs end in any order.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "core/batch/batch_attempts.h"
#include "core/lane/external_executor.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

class AnyOrderTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kAnySize = ~std::size_t{0};

  std::shared_ptr<Batch> submit(std::uint64_t jobs) {
    auto batch = std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  // A turn of all jobs that can be claimed, all of them started. How many these are.
  std::uint64_t begin() {
    if (!executor.begin_turn(10, kAnySize)) return 0;
    executor.allow_any_order();
    std::uint64_t started = 0;
    while (executor.start_job()) ++started;
    return started;
  }
  void end_all() {
    while (executor.running_jobs() != 0) executor.end_job(JobStatus::kOk, "x");
    executor.end_turn();
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  // A turn is of many jobs, however long the test was held up in the one before it.
  Lane lane{"lane", FairRing::Options{.quantum = std::chrono::hours(1), .parallelism = 1}};
  ExternalExecutor executor{lane};
};

TEST_F(AnyOrderTest, JobsEndInAnyOrderAndTheOthersGoBack) {
  const auto batch = submit(20);
  // The claims of a batch of unknown cost grow.
  ASSERT_EQ(begin(), 1U);
  end_all();
  ASSERT_GE(begin(), 4U);
  const std::uint64_t first = executor.running_indexes().front();
  const std::uint64_t started = executor.running_jobs();
  executor.end_job(first + 2, JobStatus::kError, "bad");
  const auto ended = lane.running().find(*batch, first + 2);
  EXPECT_TRUE(ended && ended->has_ended) << "it is shown until its result is";
  executor.publish();
  EXPECT_FALSE(lane.running().find(*batch, first + 2).has_value());
  EXPECT_EQ(batch->status().failed, 1U);
  EXPECT_EQ(executor.running_indexes().front(), first);
  EXPECT_EQ(executor.running(first + 2), nullptr);
  ASSERT_NE(executor.running(first + 1), nullptr);
  EXPECT_EQ(&executor.running(), executor.running(first));
  executor.end_job(JobStatus::kOk, "x");  // the first one
  EXPECT_EQ(executor.running_indexes().front(), first + 1);
  EXPECT_EQ(executor.running_jobs(), started - 2);
  executor.end_turn();
  EXPECT_EQ(batch->status().ok, 2U);
  EXPECT_EQ(batch->status().running, 0U);
  std::uint64_t rest = 0;
  for (std::uint64_t more = begin(); more != 0; more = begin()) {
    rest += more;
    end_all();
  }
  EXPECT_EQ(rest, 17U) << "those that had not ended run again";
  EXPECT_TRUE(batch->is_over());
  std::set<std::uint64_t> indexes;
  for (const testing::Row& row : testing::rows_of(*batch)) indexes.insert(row.index);
  EXPECT_EQ(indexes.size(), 20U);
}

TEST_F(AnyOrderTest, EachJobIsVisibleByItself) {
  const auto batch = submit(20);
  begin();
  end_all();
  ASSERT_GE(begin(), 2U);
  const std::uint64_t first = executor.running_indexes().front();
  executor.running(first + 1)->set_note("of the second");
  EXPECT_EQ(lane.running().find(*batch, first)->note, "");
  EXPECT_EQ(lane.running().find(*batch, first + 1)->note, "of the second");
  executor.end_turn();
  EXPECT_FALSE(lane.running().find(*batch, first).has_value());
  EXPECT_EQ(batch->attempts().note(first + 1), "of the second") << "it reaches the next attempt";
}

TEST_F(AnyOrderTest, TheDurationOfAJobIsFromItsOwnStartToItsOwnEnd) {
  const auto batch = submit(20);
  begin();
  end_all();
  const std::uint64_t jobs = begin();
  ASSERT_GE(jobs, 4U);
  const double before = handler.stats.job_duration.snapshot().sum_seconds;
  const Nanoseconds started = steady_now();
  while (steady_now() < started + std::chrono::milliseconds(1)) {
  }
  end_all();
  EXPECT_GE(handler.stats.job_duration.snapshot().sum_seconds - before, 0.001 * static_cast<double>(jobs));
}

}  // namespace
}  // namespace locksley
