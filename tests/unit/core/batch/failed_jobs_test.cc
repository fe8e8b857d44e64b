#include "core/batch/failed_jobs.h"

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <vector>

namespace locksley {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Ranges = FailedJobs::Ranges;

FailedJobs with(const Ranges& ranges) {
  FailedJobs failed;
  failed.add(ranges);
  return failed;
}

TEST(FailedJobsTest, TheyAreKeptAsTheyCameAndListedAscending) {
  FailedJobs failed = with({{4, 6}, {0, 2}});
  failed.add(Ranges{{2, 3}});
  EXPECT_EQ(failed.count(), 5U);
  EXPECT_THAT(failed.list(), ElementsAre(IndexRange{4, 6}, IndexRange{0, 3}));
  EXPECT_THAT(failed.all(), ElementsAre(IndexRange{0, 3}, IndexRange{4, 6}));
  EXPECT_TRUE(failed.has(2));
  EXPECT_FALSE(failed.has(3));
  EXPECT_EQ(failed.first_missing(Ranges{{0, 1}, {4, 6}}), std::nullopt);
  EXPECT_EQ(failed.first_missing(Ranges{{1, 2}, {5, 8}}), 6U);
}

TEST(FailedJobsTest, ARequeueOfAllTakesTheListAndItsEndSupersedesAllRowsBefore) {
  FailedJobs failed = with({{4, 6}, {0, 2}});
  EXPECT_EQ(failed.requeue(), nullptr);
  failed.begin_requeue(7);
  ASSERT_NE(failed.requeue(), nullptr);
  EXPECT_THAT(*failed.requeue()->jobs, ElementsAre(IndexRange{4, 6}, IndexRange{0, 2}));
  EXPECT_TRUE(failed.requeue()->are_all);
  EXPECT_EQ(failed.requeued(), 4U);
  EXPECT_EQ(failed.count(), 0U);
  EXPECT_THAT(failed.list(), IsEmpty());
  EXPECT_EQ(failed.ranges(), 2U);
  EXPECT_EQ(failed.superseded().below, 0U) << "not before the end";
  EXPECT_EQ(failed.requeue()->superseded.below, 7U);
  failed.add(Ranges{{8, 9}});
  EXPECT_THAT(failed.all(), ElementsAre(IndexRange{0, 2}, IndexRange{4, 6}, IndexRange{8, 9}));
  EXPECT_EQ(failed.end_requeue(), 4U);
  EXPECT_EQ(failed.requeue(), nullptr);
  EXPECT_EQ(failed.requeued(), 0U);
  EXPECT_THAT(failed.all(), ElementsAre(IndexRange{8, 9})) << "it failed meanwhile";
  EXPECT_EQ(failed.superseded().below, 7U);
}

TEST(FailedJobsTest, ARequeueOfSomeLeavesTheOthersAndAddsToWhatIsSuperseded) {
  FailedJobs failed = with({{4, 6}, {0, 3}});
  failed.begin_requeue(Ranges{{1, 2}, {4, 5}}, 6);
  EXPECT_FALSE(failed.requeue()->are_all);
  EXPECT_EQ(failed.requeued(), 2U);
  EXPECT_EQ(failed.count(), 3U);
  EXPECT_THAT(failed.list(), ElementsAre(IndexRange{5, 6}, IndexRange{0, 1}, IndexRange{2, 3}));
  failed.end_requeue();
  failed.begin_requeue(Ranges{{5, 6}}, 8);
  failed.end_requeue();
  EXPECT_TRUE(failed.superseded().covers(5, 1));
  EXPECT_FALSE(failed.superseded().covers(6, 1));
  EXPECT_TRUE(failed.superseded().covers(7, 5));
  EXPECT_FALSE(failed.superseded().covers(0, 0)) << "its failure counts";
}

TEST(FailedJobsTest, ASharedListIsNotCopiedAndDoesNotChange) {
  FailedJobs failed = with({{0, 2}, {4, 5}});
  const FailedJobs::SharedRanges shared = failed.share();
  EXPECT_EQ(failed.share(), shared);
  EXPECT_EQ(failed.list().data(), shared->data());
  failed.begin_requeue(9);
  EXPECT_EQ(failed.requeue()->jobs, shared);
  failed.end_requeue();
  EXPECT_EQ(shared.use_count(), 1);

  failed.add(*shared);
  const FailedJobs::SharedRanges again = failed.share();
  failed.add(Ranges{{7, 8}});
  EXPECT_THAT(failed.all(), ElementsAre(IndexRange{0, 2}, IndexRange{4, 5}, IndexRange{7, 8}));
  EXPECT_THAT(*again, ElementsAre(IndexRange{0, 2}, IndexRange{4, 5}));
}

TEST(FailedJobsTest, AListThatWasLeftOutIsTakenOnceAndIfTheNumberOfItsJobsIsRight) {
  const auto list = std::make_shared<const Ranges>(Ranges{{4, 5}, {0, 2}});
  FailedJobs failed;
  SupersededRows superseded;
  superseded.add_all(3);
  failed.restore_unread(3, superseded);
  EXPECT_TRUE(failed.is_unread());
  EXPECT_EQ(failed.count(), 3U);
  EXPECT_EQ(failed.superseded().below, 3U);
  EXPECT_FALSE(failed.set_list(list, 2));
  EXPECT_TRUE(failed.is_unread());
  EXPECT_TRUE(failed.set_list(list, 3));
  EXPECT_FALSE(failed.is_unread());
  EXPECT_FALSE(failed.set_list(list, 3)) << "it is there";
  EXPECT_THAT(failed.all(), ElementsAre(IndexRange{0, 2}, IndexRange{4, 5}));
}

TEST(FailedJobsTest, ItsMemoryIsThatOfTheRangesWhereverTheyAre) {
  FailedJobs failed;
  EXPECT_EQ(failed.memory_bytes(), 0U);
  failed.restore(Ranges{{0, 2}, {4, 5}}, {});
  EXPECT_EQ(failed.memory_bytes(), 2 * sizeof(IndexRange));
  const FailedJobs::SharedRanges shared = failed.share();
  EXPECT_EQ(failed.memory_bytes(), 2 * sizeof(IndexRange));
  failed.begin_requeue(9);
  EXPECT_EQ(failed.memory_bytes(), 2 * sizeof(IndexRange));
  failed.end_requeue();
  EXPECT_EQ(failed.memory_bytes(), 0U);
}

}  // namespace
}  // namespace locksley
