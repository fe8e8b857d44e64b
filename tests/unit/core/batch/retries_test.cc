#include "core/batch/retries.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/base/index_ranges.h"

namespace locksley {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;

TEST(RetryDelayTest, DoublesUpToItsLongestAndIsSpreadFromNothingOn) {
  constexpr std::uint64_t kLargest = ~std::uint64_t{0};
  std::mt19937_64 random(1);
  for (std::uint32_t failures = 1; failures <= 2000; failures += failures < 20 ? 1 : 100) {
    const double doubled = 100.0 * std::pow(2.0, std::min(failures - 1, 30U));
    const Nanoseconds longest = milliseconds(static_cast<std::int64_t>(std::min(doubled, 300'000.0)));
    Nanoseconds least = longest;
    Nanoseconds most{0};
    for (int i = 0; i < 1000; ++i) {
      const Nanoseconds wait = retry_delay(failures, random());
      least = std::min(least, wait);
      most = std::max(most, wait);
    }
    EXPECT_LE(most, longest) << failures;
    EXPECT_GT(most, longest * 9 / 10) << failures;
    EXPECT_LT(least, longest / 10) << failures;
  }
  EXPECT_EQ(retry_delay(1, 0).count(), 0);
  EXPECT_LE(retry_delay(~0U, kLargest), minutes(5));
}

TEST(RetryDelayTest, ReachesItsLongestAndNoFarther) {
  constexpr std::uint64_t kFirst = 100'000'000;  // 100 ms
  EXPECT_EQ(retry_delay(1, kFirst), Nanoseconds{kFirst});
  EXPECT_EQ(retry_delay(1, kFirst + 1), Nanoseconds{0});
  EXPECT_EQ(retry_delay(0, kFirst), Nanoseconds{kFirst}) << "no failure counts as one";
  EXPECT_EQ(retry_delay(2, 2 * kFirst), Nanoseconds{2 * kFirst});
  EXPECT_EQ(retry_delay(12, 2048 * kFirst), Nanoseconds{2048 * kFirst});
  EXPECT_EQ(retry_delay(13, 3000 * kFirst), minutes(5));
  EXPECT_EQ(retry_delay(13, 3000 * kFirst + 1), Nanoseconds{0});
}

TEST(RetriesTest, ForgottenJobsHaveNoAttemptsAndTakeNoMemory) {
  Retries retries(1);
  const std::uint64_t empty = retries.memory_bytes();
  retries.set({10, 20}, {2, 0});
  retries.set({30, 31}, {1, 1});
  retries.forget({12, 15});
  EXPECT_THAT(retries.all(), ElementsAre(JobAttempts{{10, 12}, {2, 0}}, JobAttempts{{15, 20}, {2, 0}},
                                         JobAttempts{{30, 31}, {1, 1}}));
  EXPECT_EQ(retries.of(13), AttemptCounts{});
  retries.forget({0, 100});
  EXPECT_TRUE(retries.all().empty());
  EXPECT_EQ(retries.memory_bytes(), empty);
}

// Against a plain map from index to attempts.
TEST(RetriesTest, KnowsOfEachJobWhatWasSaidLast) {
  constexpr std::uint64_t kJobs = 60;
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  for (int round = 0; round < 200; ++round) {
    Retries retries(1);
    std::map<std::uint64_t, AttemptCounts> expected;
    for (int step = 0; step < 40; ++step) {
      const std::uint64_t low = below(kJobs);
      const IndexRange jobs{low, low + 1 + below(kJobs - low)};
      const AttemptCounts attempts{static_cast<std::uint32_t>(below(3)),
                                   static_cast<std::uint32_t>(below(2))};
      retries.set(jobs, attempts);
      for (std::uint64_t i = jobs.low; i < jobs.high; ++i) expected[i] = attempts;
      for (std::uint64_t i = 0; i < kJobs; ++i) ASSERT_EQ(retries.of(i), expected[i]) << i;
      const std::uint64_t from = below(kJobs);
      const IndexRange looked{from, from + below(kJobs - from + 1)};
      std::uint64_t at = looked.low;
      retries.visit(looked, [&](IndexRange part, AttemptCounts found) {
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
  EXPECT_EQ(retries.next_due(), kNever);
  for (const std::uint64_t low : {20u, 0u, 10u}) retries.schedule({{low, low + 5}, {1, 0}}, now);
  retries.schedule({{40, 50}, {20, 0}}, now + minutes(10));
  EXPECT_EQ(retries.waiting(), 25u);
  EXPECT_GE(retries.next_due(), Instant(now));
  EXPECT_TRUE(retries.take_due(now - seconds(1)).empty());
  EXPECT_THAT(retries.take_due(now + seconds(1)),
              ElementsAre(IndexRange{0, 5}, IndexRange{10, 15}, IndexRange{20, 25}));
  EXPECT_EQ(retries.waiting(), 10u);
  EXPECT_THAT(retries.take_due(Nanoseconds::max()), ElementsAre(IndexRange{40, 50}));
  EXPECT_EQ(retries.next_due(), kNever);
}

}  // namespace
}  // namespace locksley
