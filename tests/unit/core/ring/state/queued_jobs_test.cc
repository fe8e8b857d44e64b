// Which jobs of a queue wait: compared with a set, and the order in which they are taken.
#include "core/ring/state/queued_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "core/base/index_ranges.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kAll = ~std::uint64_t{0};

std::vector<IndexRange> take_each(QueuedJobs& jobs) {
  std::vector<IndexRange> taken;
  while (!jobs.empty()) taken.push_back(jobs.take(kAll));
  return taken;
}

void queue_again(QueuedJobs& jobs, const std::vector<IndexRange>& ranges, std::size_t more = 0) {
  QueuedJobs::Prepared prepared(ranges, more);
  jobs.queue_again(prepared);
}

TEST(QueuedJobsTest, WhatHasGoneBackIsTakenFirst) {
  QueuedJobs jobs;
  jobs.append(10);
  EXPECT_EQ(jobs.take(4), (IndexRange{0, 4}));
  jobs.give_back({0, 2});
  EXPECT_EQ(jobs.size(), 8U);
  EXPECT_EQ(jobs.take(1), (IndexRange{0, 1}));
  EXPECT_THAT(take_each(jobs), ElementsAre(IndexRange{1, 2}, IndexRange{4, 10}));
  EXPECT_EQ(jobs.take(1).size(), 0U);
}

TEST(QueuedJobsTest, WhatGoesBackToTheEndOfWhatWasTakenJoinsTheTail) {
  QueuedJobs jobs;
  jobs.append(10);
  jobs.take(4);
  jobs.give_back({2, 4});
  EXPECT_EQ(jobs.tail(), 2U);
  EXPECT_EQ(jobs.memory_bytes(), 0U);
  EXPECT_EQ(jobs.withdraw(0), (IndexRange{2, 10}));
  EXPECT_TRUE(jobs.empty());
}

TEST(QueuedJobsTest, OfThoseThatAreQueuedAgainTheLowestIsTakenFirst) {
  for (const bool others_went_back : {false, true}) {
    QueuedJobs jobs;
    jobs.append(20);
    jobs.take(20);
    if (others_went_back) jobs.give_back({0, 1});
    queue_again(jobs, {{2, 3}, {5, 7}, {9, 10}}, 5);
    EXPECT_EQ(jobs.size(), others_went_back ? 5U : 4U);
    EXPECT_EQ(jobs.take(kAll), (IndexRange{2, 3}));
    EXPECT_EQ(jobs.take(kAll), (IndexRange{5, 7}));
    EXPECT_EQ(jobs.take(kAll), (IndexRange{9, 10}));
    EXPECT_EQ(jobs.size(), others_went_back ? 1U : 0U);
  }
}

TEST(QueuedJobsTest, OfThoseThatAreQueuedAgainTheHighestMayJoinTheTail) {
  QueuedJobs jobs;
  jobs.append(20);
  jobs.take(20);
  queue_again(jobs, {{2, 3}, {5, 7}, {18, 20}});
  EXPECT_EQ(jobs.tail(), 18U);
  EXPECT_THAT(take_each(jobs), ElementsAre(IndexRange{2, 3}, IndexRange{5, 7}, IndexRange{18, 20}));
  queue_again(jobs, {{19, 20}});
  EXPECT_EQ(jobs.tail(), 19U);
  EXPECT_THAT(take_each(jobs), ElementsAre(IndexRange{19, 20}));
}

TEST(QueuedJobsTest, AMillionRangesAreQueuedAgainWithoutACopy) {
  std::vector<IndexRange> ranges;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) ranges.push_back({2 * i, 2 * i + 1});
  QueuedJobs jobs;
  jobs.append(2'000'000);
  jobs.take(kAll);
  QueuedJobs::Prepared prepared(ranges, 0);
  EXPECT_EQ(prepared.jobs(), 1'000'000U);
  jobs.queue_again(prepared);
  const std::uint64_t memory = jobs.memory_bytes();
  EXPECT_EQ(memory, (ranges.size() + 1) * sizeof(IndexRange)) << "the vector that was prepared";
  EXPECT_EQ(jobs.size(), 1'000'000U);
  jobs.append(1);
  const std::vector<IndexRange> all = jobs.take_all();
  EXPECT_EQ(all.size(), 1'000'001U);
  EXPECT_EQ(all.capacity() * sizeof(IndexRange), memory) << "the tail had room there";
  EXPECT_EQ(jobs.memory_bytes(), 0U);
}

TEST(QueuedJobsTest, WhatIsTakenIsNeverEmptyWhileJobsWait) {
  QueuedJobs jobs;
  jobs.append(20);
  jobs.take(10);
  queue_again(jobs, {{2, 3}, {5, 6}, {9, 10}});  // the last one joins the tail
  EXPECT_THAT(jobs.take_common({0, 9}, 2), ElementsAre(IndexRange{2, 3}, IndexRange{5, 6}));
  EXPECT_EQ(jobs.take(kAll), (IndexRange{9, 20}));
}

TEST(QueuedJobsTest, RangesAfterAGapAreAdded) {
  QueuedJobs jobs;
  jobs.append(3);
  jobs.add({5, 7});
  jobs.add({9, 9});
  EXPECT_EQ(jobs.end(), 7U);
  EXPECT_EQ(jobs.has(4, 10), false);
  EXPECT_EQ(jobs.has(5, 10), true);
  jobs.append(1);
  EXPECT_THAT(take_each(jobs), ElementsAre(IndexRange{0, 3}, IndexRange{5, 8}));
}

TEST(QueuedJobsTest, SaysNothingOfOneIndexAmongVeryManyRanges) {
  QueuedJobs jobs;
  jobs.append(10);
  jobs.take(10);
  queue_again(jobs, {{0, 1}, {2, 3}, {4, 5}});
  EXPECT_EQ(jobs.has(2, 3), true);
  EXPECT_EQ(jobs.has(2, 2), std::nullopt);
}

// Any calls in any order, beside a set of indexes.
TEST(QueuedJobsTest, HasTheIndexesOfASet) {
  std::mt19937_64 random(1);
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    QueuedJobs jobs;
    std::set<std::uint64_t> waiting;
    std::set<std::uint64_t> out;  // were added, and do not wait
    const auto leave = [&](IndexRange range) {
      for (std::uint64_t i = range.low; i < range.high; ++i) {
        ASSERT_EQ(waiting.erase(i), 1U);
        out.insert(i);
      }
    };
    const auto enter = [&](IndexRange range) {
      for (std::uint64_t i = range.low; i < range.high; ++i) {
        out.erase(i);
        ASSERT_TRUE(waiting.insert(i).second);
      }
    };
    const auto some_out = [&] {
      std::vector<IndexRange> ranges;
      for (const std::uint64_t i : out) {
        if (below(3) == 0) append_range(ranges, {i, i + 1});
      }
      return ranges;
    };
    for (int step = 0; step < 60; ++step) {
      switch (below(7)) {
        case 0: {
          const std::uint64_t n = below(6);
          enter({jobs.end(), jobs.end() + n});
          jobs.append(n);
          break;
        }
        case 1: {
          const std::uint64_t low = jobs.end() + below(3);
          const IndexRange range{low, low + 1 + below(4)};
          enter(range);
          jobs.add(range);
          break;
        }
        case 2:
          if (jobs.empty()) break;
          leave(jobs.take(1 + below(5)));
          ASSERT_LT(jobs.size(), waiting.size() + 1);
          break;
        case 3: {
          const auto ranges = some_out();
          if (ranges.empty()) break;
          const IndexRange back = ranges[below(ranges.size())];
          enter(back);
          jobs.give_back(back);
          break;
        }
        case 4: {
          const auto ranges = some_out();
          for (const IndexRange& range : ranges) enter(range);
          queue_again(jobs, ranges, below(2));
          break;
        }
        case 5: {
          const std::uint64_t low = below(jobs.end() + 1);
          for (const IndexRange& range : jobs.take_common({low, low + below(8)}, 3)) leave(range);
          break;
        }
        case 6:
          if (below(4) == 0) std::ranges::for_each(jobs.take_all(), leave);
          break;
      }
      ASSERT_EQ(jobs.size(), waiting.size()) << "round " << round << ", step " << step;
      for (std::uint64_t i = 0; i < jobs.end(); ++i) ASSERT_EQ(jobs.has(i, 1000), waiting.contains(i));
    }
    while (!jobs.empty()) {
      const IndexRange taken = jobs.take(1 + below(4));
      ASSERT_FALSE(taken.empty());
      leave(taken);
    }
    EXPECT_TRUE(waiting.empty());
  }
}

}  // namespace
}  // namespace locksley
