#include "core/batch/superseded_rows.h"

#include <gmock/gmock.h>

#include <vector>

namespace locksley {
namespace {

using ::testing::ElementsAre;

TEST(SupersededRowsTest, CoversWhatLiesBelowTheRowOfTheLastRetryOfItsJob) {
  SupersededRows rows;
  EXPECT_FALSE(rows.covers(0, 0));
  rows.add_all(10);
  EXPECT_TRUE(rows.covers(9, 77));
  EXPECT_FALSE(rows.covers(10, 77));
  rows.add(std::vector<IndexRange>{{3, 5}, {8, 9}}, 20);
  for (const std::uint64_t job : {3U, 4U, 8U}) {
    EXPECT_TRUE(rows.covers(19, job)) << job;
    EXPECT_FALSE(rows.covers(20, job)) << job;
  }
  for (const std::uint64_t job : {2U, 5U, 7U, 9U}) {
    EXPECT_TRUE(rows.covers(9, job)) << job;
    EXPECT_FALSE(rows.covers(10, job)) << job;
  }
}

TEST(SupersededRowsTest, ALaterRetryReplacesAnEarlierOneAndNeighboursAreOneRange) {
  SupersededRows rows;
  rows.add(std::vector<IndexRange>{{0, 10}}, 5);
  const SupersededRows before = rows;
  rows.add(std::vector<IndexRange>{{4, 6}}, 7);
  EXPECT_THAT(*rows.jobs,
              ElementsAre(SupersededJobs{{0, 4}, 5}, SupersededJobs{{4, 6}, 7}, SupersededJobs{{6, 10}, 5}));
  rows.add(std::vector<IndexRange>{{6, 8}}, 7);
  EXPECT_THAT(*rows.jobs,
              ElementsAre(SupersededJobs{{0, 4}, 5}, SupersededJobs{{4, 8}, 7}, SupersededJobs{{8, 10}, 5}));
  EXPECT_EQ(before.ranges(), 1U) << "a copy stays as it was";
  rows.add_all(9);
  EXPECT_EQ(rows.ranges(), 0U) << "all of them lie below";
  EXPECT_TRUE(rows.covers(8, 4));
}

}  // namespace
}  // namespace locksley
