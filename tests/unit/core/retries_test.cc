#include "core/retries.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/index_ranges.h"

namespace locksley {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;

TEST(BackoffTest, DoublesUpToItsLongestAndIsSpreadFromNothingOn) {
  constexpr std::uint64_t kLargest = ~std::uint64_t{0};
  std::mt19937_64 random(1);
  for (std::uint32_t failures = 1; failures <= 2000; failures += failures < 20 ? 1 : 100) {
    const double doubled = 100.0 * std::pow(2.0, std::min(failures - 1, 30U));
    const Nanoseconds longest = milliseconds(static_cast<std::int64_t>(std::min(doubled, 300'000.0)));
    Nanoseconds least = longest;
    Nanoseconds most{0};
    for (int i = 0; i < 1000; ++i) {
      const Nanoseconds wait = backoff(failures, random());
      least = std::min(least, wait);
      most = std::max(most, wait);
    }
    EXPECT_LE(most, longest) << failures;
    EXPECT_GT(most, longest * 9 / 10) << failures;
    EXPECT_LT(least, longest / 10) << failures;
  }
  EXPECT_EQ(backoff(1, 0).count(), 0);
  EXPECT_LE(backoff(~0U, kLargest), minutes(5));
}

// Against a plain map from index to tries.
TEST(RetriesTest, KnowsOfEachJobWhatWasSaidLast) {
  constexpr std::uint64_t kJobs = 60;
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  for (int round = 0; round < 200; ++round) {
    Retries retries(1);
    std::map<std::uint64_t, Tries> expected;
    for (int step = 0; step < 40; ++step) {
      const std::uint64_t low = below(kJobs);
      const IndexRange jobs{low, low + 1 + below(kJobs - low)};
      const Tries tries{static_cast<std::uint32_t>(below(3)), static_cast<std::uint32_t>(below(2))};
      retries.set(jobs, tries);
      for (std::uint64_t i = jobs.low; i < jobs.high; ++i) expected[i] = tries;
      for (std::uint64_t i = 0; i < kJobs; ++i) ASSERT_EQ(retries.of(i), expected[i]) << i;
      const std::uint64_t from = below(kJobs);
      const IndexRange looked{from, from + below(kJobs - from + 1)};
      std::uint64_t at = looked.low;
      retries.visit(looked, [&](IndexRange part, Tries found) {
        ASSERT_EQ(part.low, at);
        ASSERT_FALSE(part.empty());
        for (std::uint64_t i = part.low; i < part.high; ++i) ASSERT_EQ(found, expected[i]) << i;
        at = part.high;
      });
      ASSERT_EQ(at, looked.high);
    }
  }
}

TEST(RetriesTest, AMillionJobsThatFailTogetherAreFewBytes) {
  Retries retries(1);
  for (std::uint64_t i = 0; i < 1'000'000; ++i) retries.set({i, i + 1}, {1, 0});
  EXPECT_LT(retries.memory_bytes(), 1000u);
}

TEST(RetriesTest, GivesWhatIsDueOnceInTheOrderOfTheIndexes) {
  Retries retries(1);
  const Nanoseconds now = seconds(100);
  EXPECT_EQ(retries.next_due().count(), 0);
  for (const std::uint64_t low : {20u, 0u, 10u}) retries.wait({{low, low + 5}, {1, 0}}, now);
  retries.wait({{40, 50}, {20, 0}}, now + minutes(10));
  EXPECT_EQ(retries.waiting(), 25u);
  EXPECT_GE(retries.next_due(), now);
  EXPECT_TRUE(retries.take_due(now - seconds(1)).empty());
  EXPECT_THAT(retries.take_due(now + seconds(1)),
              ElementsAre(IndexRange{0, 5}, IndexRange{10, 15}, IndexRange{20, 25}));
  EXPECT_EQ(retries.waiting(), 10u);
  EXPECT_THAT(retries.take_all(), ElementsAre(IndexRange{40, 50}));
  EXPECT_EQ(retries.next_due().count(), 0);
}

// Against sets of indexes.
TEST(IndexRangesTest, DifferenceAndContainsAreThoseOfTheSets) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<IndexRange> all;
    std::vector<IndexRange> without;
    std::vector<IndexRange> expected;
    for (std::uint64_t i = 0; i < 40; ++i) {
      const bool is_in = random() % 3 != 0;
      const bool is_out = random() % 3 == 0;
      // Not always joined, as long as they are disjoint.
      if (is_in) random() % 4 == 0 ? all.push_back({i, i + 1}) : append_range(all, {i, i + 1});
      if (is_out) append_range(without, {i, i + 1});
      if (is_in && !is_out) append_range(expected, {i, i + 1});
      ASSERT_EQ(contains(without, i), is_out);
    }
    const auto found = difference(all, without);
    EXPECT_EQ(sorted(found), expected);
    EXPECT_EQ(count_of(found), count_of(expected));
    auto shuffled = expected;
    std::ranges::shuffle(shuffled, random);
    EXPECT_EQ(sorted(shuffled), expected);
  }
}

}  // namespace
}  // namespace locksley
