#include "core/lane/loss_counts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/handler.h"

namespace locksley {
namespace {

class LossCountsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> make(BatchOptions options = {}) {
    return std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0));
  }
  // A batch whose first `jobs` jobs were lost once.
  std::shared_ptr<Batch> lost(LossCounts& counts, const std::string& tenant, std::uint64_t jobs) {
    BatchOptions options;
    options.tenant = tenant;
    const auto made = make(std::move(options));
    for (std::uint64_t i = 0; i < jobs; ++i) EXPECT_FALSE(counts.count(*made, i));
    return made;
  }
  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  LossCounts losses{3, 4};
  std::shared_ptr<Batch> batch = make();
};

TEST_F(LossCountsTest, TheThirdLossIsTheLast) {
  EXPECT_FALSE(losses.count(*batch, 7));
  EXPECT_FALSE(losses.count(*batch, 8)) << "of another job";
  EXPECT_FALSE(losses.count(*batch, 7));
  EXPECT_TRUE(losses.count(*batch, 7));
  EXPECT_EQ(losses.size(), 1U);
  EXPECT_FALSE(losses.count(*batch, 7)) << "its count was forgotten";
}

TEST_F(LossCountsTest, AMachineThatComesBackTakesItsLossesBack) {
  EXPECT_FALSE(losses.count(*batch, 7));
  EXPECT_FALSE(losses.count(*batch, 7));
  losses.take_back(*batch, {0, 10});
  EXPECT_FALSE(losses.count(*batch, 7));
  EXPECT_TRUE(losses.count(*batch, 7));
  losses.take_back(*batch, {0, 10});
  EXPECT_EQ(losses.size(), 0U);
}

TEST_F(LossCountsTest, JobsThatHaveEndedAreForgotten) {
  EXPECT_FALSE(losses.count(*batch, 7));
  EXPECT_FALSE(losses.count(*batch, 8));
  losses.forget(*batch, {8, 9});
  EXPECT_EQ(losses.size(), 1U);
  losses.forget(*make(), {0, 9});
  EXPECT_EQ(losses.size(), 1U) << "another batch";
}

TEST_F(LossCountsTest, TheirNumberIsBounded) {
  const auto over = make();
  for (std::uint64_t i = 0; i < 2; ++i) EXPECT_FALSE(losses.count(*over, i));
  over->close();
  ASSERT_TRUE(over->is_over());
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_FALSE(losses.count(*batch, i));
  EXPECT_EQ(losses.size(), 4U) << "the batch that is over made room";
  EXPECT_FALSE(losses.count(*batch, 99));
  EXPECT_EQ(losses.size(), 1U) << "all of them made room";
}

TEST_F(LossCountsTest, ATenantThatLosesVeryManyJobsLeavesTheCountsOfOthers) {
  LossCounts counts(3, 16);
  const auto victim = lost(counts, "victim", 1);
  std::vector<std::shared_ptr<Batch>> live;
  for (int i = 0; i < 50; ++i) live.push_back(lost(counts, "mallory", 1));
  EXPECT_FALSE(counts.count(*victim, 0));
  live.push_back(lost(counts, "mallory", 50));
  EXPECT_LE(counts.size(), 16U);
  EXPECT_TRUE(counts.count(*victim, 0)) << "the third loss";
}

TEST_F(LossCountsTest, TheTenantsWithMostJobsMakeRoomOneAfterTheOther) {
  LossCounts counts(2, 32);  // an eighth is 4
  const auto few = lost(counts, "few", 1), some = lost(counts, "some", 2);
  std::vector<std::shared_ptr<Batch>> many;
  for (int i = 0; i < 29; ++i) many.push_back(lost(counts, std::to_string(i % 10), 1));
  EXPECT_EQ(counts.size(), 32U);
  many.push_back(lost(counts, "new", 1));
  EXPECT_EQ(counts.size(), 27U) << "two tenants with three jobs each have made room for one job";
  EXPECT_TRUE(counts.count(*few, 0));
  EXPECT_TRUE(counts.count(*some, 0));
}

// Else each new count might look at all others.
TEST_F(LossCountsTest, RoomIsMadeForManyCountsAtOnce) {
  LossCounts counts(3, 32);
  const auto over = lost(counts, "user", 1), live = lost(counts, "user", 31);
  over->close();
  EXPECT_FALSE(counts.count(*live, 99));
  EXPECT_EQ(counts.size(), 1U) << "the batch that is over has too few";
}

TEST_F(LossCountsTest, TenantsOfAnotherDaemonAreNotThoseOfTheSameNameHere) {
  LossCounts counts(2, 16);
  const auto here = lost(counts, "alice", 1);
  BatchOptions options;
  options.tenant = "alice";
  options.queue_tenant = "upstream";
  const auto there = make(std::move(options));
  for (std::uint64_t i = 0; i < 16; ++i) EXPECT_FALSE(counts.count(*there, i));
  EXPECT_TRUE(counts.count(*here, 0)) << "the second loss";
}

TEST_F(LossCountsTest, ABatchThatIsGoneIsNotTakenForAnother) {
  EXPECT_FALSE(losses.count(*batch, 7));
  EXPECT_FALSE(losses.count(*batch, 7));
  batch = nullptr;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(losses.count(*make(), 7)) << "at perhaps the same address";
}

TEST_F(LossCountsTest, OneLossMayBeEnough) {
  LossCounts strict(1);
  EXPECT_TRUE(strict.count(*batch, 0));
}

}  // namespace
}  // namespace locksley
