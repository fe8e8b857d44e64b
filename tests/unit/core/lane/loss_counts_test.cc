#include "core/lane/loss_counts.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/batch/handler.h"

namespace locksley {
namespace {

class LossCountsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> make() {
    return std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
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
