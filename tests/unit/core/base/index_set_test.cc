#include "core/base/index_set.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "core/base/index_ranges.h"

namespace locksley {
namespace {

using Ranges = std::vector<IndexRange>;

TEST(IndexSetTest, ATakenPartSplitsItsRange) {
  IndexSet set;
  set.add({10, 20});
  EXPECT_EQ(set.take({12, 15}), (Ranges{{12, 15}}));
  EXPECT_EQ(set.ranges(), (Ranges{{10, 12}, {15, 20}}));
  EXPECT_EQ(set.size(), 7U);
  EXPECT_EQ(set.first(), 10U);
}

TEST(IndexSetTest, OnlyWhatIsThereIsTaken) {
  IndexSet set;
  set.add({10, 12});
  set.add({20, 22});
  EXPECT_EQ(set.take({0, 10}), Ranges{});
  EXPECT_EQ(set.take({12, 20}), Ranges{});
  EXPECT_EQ(set.take({11, 21}), (Ranges{{11, 12}, {20, 21}}));
  EXPECT_EQ(set.take({11, 21}), Ranges{});
  EXPECT_EQ(set.take({5, 3}), Ranges{}) << "an inverted range has nothing";
  EXPECT_EQ(set.take_all(), (Ranges{{10, 11}, {21, 22}}));
  EXPECT_TRUE(set.empty());
}

TEST(IndexSetTest, IndexesAreFoundByTheirPlace) {
  IndexSet set;
  set.add({10, 12});
  set.add({20, 23});
  EXPECT_EQ(set.at(0), 10U);
  EXPECT_EQ(set.at(2), 20U);
  EXPECT_EQ(set.at(4), 22U);
  EXPECT_EQ(set.at(99), 22U) << "the last one";
  EXPECT_EQ(set.ranges(3), (Ranges{{10, 12}, {20, 21}}));
}

TEST(IndexSetTest, DoesWhatASetOfNumbersDoes) {
  std::mt19937_64 random(1);
  IndexSet set;
  std::set<std::uint64_t> model;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t low = random() % 200, high = low + random() % 20;
    std::vector<std::uint64_t> expected, taken;
    for (std::uint64_t index = low; index < high; ++index) {
      if (model.erase(index) != 0) expected.push_back(index);
    }
    for (const IndexRange& range : set.take({low, high})) {
      for (std::uint64_t index = range.low; index < range.high; ++index) taken.push_back(index);
    }
    ASSERT_EQ(taken, expected);
    if (random() % 2 == 0) {
      set.add({low, high});
      for (std::uint64_t index = low; index < high; ++index) model.insert(index);
    }
    ASSERT_EQ(set.size(), model.size());
    ASSERT_EQ(set.contains(low), model.contains(low));
    ASSERT_EQ(set.count_below(low),
              static_cast<std::uint64_t>(std::distance(model.begin(), model.lower_bound(low))));
    ASSERT_EQ(set.empty(), model.empty());
    if (model.empty()) continue;
    ASSERT_EQ(set.first(), *model.begin());
  }
}

}  // namespace
}  // namespace locksley
