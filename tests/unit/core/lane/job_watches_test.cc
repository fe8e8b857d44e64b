// Which watches of jobs end when, and what it costs to look for them.
#include "core/lane/job_watches.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

class JobWatchesTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> make_batch() {
    return std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  std::shared_ptr<Batch> batch = make_batch();
};

std::uint64_t comparisons = 0;

struct CountedLess {
  bool operator()(const WatchedJob& a, const WatchedJob& b) const {
    ++comparisons;
    return a < b;
  }
};

TEST_F(JobWatchesTest, NewsEndsAllWatchesOfItsJobAndNoOther) {
  JobWatches<> watches;
  const auto other_batch = make_batch();
  const auto first = watches.add({batch.get(), 7});
  const auto second = watches.add({batch.get(), 7});
  const auto next_job = watches.add({batch.get(), 8});
  const auto of_other = watches.add({other_batch.get(), 7});
  EXPECT_FALSE(watches.end_those_of({batch.get(), 6}));
  EXPECT_TRUE(watches.end_those_of({batch.get(), 7}));
  EXPECT_FALSE(watches.lasts(first));
  EXPECT_FALSE(watches.lasts(second));
  EXPECT_TRUE(watches.lasts(next_job));
  EXPECT_TRUE(watches.lasts(of_other));
  EXPECT_FALSE(watches.end_those_of({batch.get(), 7})) << "once";
}

TEST_F(JobWatchesTest, AJobIsWatchedUntilItsLastWatchIsRemoved) {
  JobWatches<> watches;
  const auto first = watches.add({batch.get(), 7});
  const auto second = watches.add({batch.get(), 7});
  watches.remove(first);
  EXPECT_TRUE(watches.lasts(second));
  watches.remove(second);
  EXPECT_FALSE(watches.end_those_of({batch.get(), 7}));
}

TEST_F(JobWatchesTest, AWatchThatHasEndedTakesNoneOfALaterOne) {
  JobWatches<> watches;
  const auto ended = watches.add({batch.get(), 7});
  watches.end_those_of({batch.get(), 7});
  const auto later = watches.add({batch.get(), 7});
  EXPECT_FALSE(watches.lasts(ended));
  watches.remove(ended);
  EXPECT_TRUE(watches.lasts(later));
  EXPECT_TRUE(watches.end_those_of({batch.get(), 7}));
}

TEST_F(JobWatchesTest, ALookCostsALogarithmHoweverManyWatch) {
  constexpr std::uint64_t kJobs = 4096;
  constexpr std::uint64_t kMostComparisons =
      40;  // a red-black tree is at most 2 log2(n) deep, and a key is compared at most twice
  using Counted = JobWatches<CountedLess>;
  Counted watches;
  std::vector<Counted::Watch> added;
  for (std::uint64_t i = 0; i < kJobs; ++i) added.push_back(watches.add({batch.get(), 2 * i}));
  for (std::uint64_t i = 0; i < kJobs; ++i) added.push_back(watches.add({batch.get(), 0}));
  const auto cost_of = [](auto act) {
    const std::uint64_t before = comparisons;
    act();
    return comparisons - before;
  };
  for (std::uint64_t i = 0; i < kJobs; ++i) {
    ASSERT_LE(cost_of([&] { EXPECT_FALSE(watches.end_those_of({batch.get(), 2 * i + 1})); }),
              kMostComparisons)
        << "a job that nobody watches";
  }
  ASSERT_LE(cost_of([&] { EXPECT_TRUE(watches.end_those_of({batch.get(), 0})); }), kMostComparisons)
      << "a job that thousands watch";
  for (const Counted::Watch& watch : added) {
    ASSERT_LE(cost_of([&] { (void)watches.lasts(watch); }), kMostComparisons);
    ASSERT_LE(cost_of([&] { watches.remove(watch); }), kMostComparisons);
  }
}

}  // namespace
}  // namespace locksley
