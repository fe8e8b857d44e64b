#include "core/base/index_ranges.h"

#include <gmock/gmock.h>

#include <random>
#include <set>
#include <vector>

namespace locksley {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ranges = std::vector<IndexRange>;

TEST(IndexRangesTest, ARangeKnowsItsSizeAndWhetherItIsEmpty) {
  EXPECT_EQ((IndexRange{3, 7}).size(), 4u);
  EXPECT_FALSE((IndexRange{3, 4}).empty());
  EXPECT_TRUE((IndexRange{3, 3}).empty());
}

TEST(IndexRangesTest, AnAppendedRangeThatContinuesTheLastMakesItLonger) {
  Ranges ranges;
  append_range(ranges, {1, 3});
  append_range(ranges, {3, 4});
  append_range(ranges, {5, 5});
  append_range(ranges, {6, 8});
  EXPECT_THAT(ranges, ElementsAre(IndexRange{1, 4}, IndexRange{6, 8}));
  EXPECT_EQ(count_of(ranges), 5u);
  EXPECT_EQ(count_of({}), 0u);
}

TEST(IndexRangesTest, SortedRangesAreAscendingAndAsFewAsPossible) {
  EXPECT_THAT(sorted({{8, 9}, {1, 3}, {5, 8}, {3, 4}}), ElementsAre(IndexRange{1, 4}, IndexRange{5, 9}));
  EXPECT_THAT(sorted({}), IsEmpty());
}

TEST(IndexRangesTest, OnlyTheIndexesWithinARangeAreContained) {
  const Ranges ranges{{2, 4}, {7, 8}};
  std::vector<std::uint64_t> contained;
  for (std::uint64_t i = 0; i < 10; ++i) {
    if (contains(ranges, i)) contained.push_back(i);
  }
  EXPECT_THAT(contained, ElementsAre(2, 3, 7));
  EXPECT_FALSE(contains({}, 0));
}

TEST(IndexRangesTest, ADifferenceCutsRangesAtBothEndsAndInTheMiddle) {
  const Ranges all{{0, 10}, {20, 30}, {40, 50}};
  EXPECT_THAT(difference(all, Ranges{{0, 2}, {4, 5}, {8, 22}, {40, 50}}),
              ElementsAre(IndexRange{2, 4}, IndexRange{5, 8}, IndexRange{22, 30}));
  EXPECT_EQ(difference(all, {}), all);
  EXPECT_EQ(difference(all, Ranges{{10, 20}, {30, 40}, {50, 60}}), all);
  EXPECT_THAT(difference(all, Ranges{{0, 100}}), IsEmpty());
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
