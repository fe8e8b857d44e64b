#include "daemon/server/batches/stored/search_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/base/index_ranges.h"

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kSome = SearchOrder::kRowsAtOnce;

using Ranges = std::vector<IndexRange>;

// All that are left; `first` and `rows` stay as they are.
Ranges rest_of(SearchOrder& order, std::uint64_t first, std::uint64_t rows) {
  Ranges ranges;
  for (IndexRange next{}; !(next = order.next(first, rows)).empty();) ranges.push_back(next);
  return ranges;
}

// Whether each row of `all` is in the ranges, and once.
void expect_each_once(const Ranges& ranges, IndexRange all) {
  EXPECT_EQ(count_of(ranges), all.size());
  const Ranges whole{all};
  EXPECT_EQ(count_of(difference(whole, sorted(ranges))), 0U);
  for (const IndexRange& range : ranges) EXPECT_LE(range.size(), kSome);
}

TEST(SearchOrderTest, BeginsAtThePlaceOfTheIndexAndGoesOnInBothDirectionsAndFromTheEnd) {
  constexpr std::uint64_t kRows = 10 * kSome;
  constexpr std::uint64_t kIndex = 5 * kSome;
  SearchOrder order(kIndex, kRows);
  EXPECT_EQ(order.next(0, kRows), (IndexRange{kIndex, kIndex + kSome}));
  EXPECT_EQ(order.next(0, kRows), (IndexRange{kIndex - kSome, kIndex}));
  EXPECT_EQ(order.next(0, kRows), (IndexRange{kRows - kSome, kRows}));
  EXPECT_EQ(order.next(0, kRows), (IndexRange{kIndex + kSome, kIndex + 2 * kSome}));
}

TEST(SearchOrderTest, EachRowComesOnce) {
  for (const std::uint64_t rows : {std::uint64_t{1}, kSome - 1, kSome, 3 * kSome + 7, 10 * kSome}) {
    for (const std::uint64_t index : {std::uint64_t{0}, rows / 2, rows - 1, rows, 2 * rows}) {
      SCOPED_TRACE(::testing::Message() << "job " << index << " of a batch with " << rows << " rows");
      SearchOrder order(index, rows);
      expect_each_once(rest_of(order, 0, rows), {0, rows});
      EXPECT_TRUE(order.next(0, rows).empty());
    }
  }
}

TEST(SearchOrderTest, ABatchWithoutRowsHasNone) {
  SearchOrder order(7, 0);
  EXPECT_TRUE(order.next(0, 0).empty());
}

TEST(SearchOrderTest, RowsThatHaveComeSinceComeLast) {
  constexpr std::uint64_t kRows = 2 * kSome;
  constexpr std::uint64_t kMore = kRows + kSome + 1;
  SearchOrder order(kSome, kRows);
  Ranges ranges = rest_of(order, 0, kMore);
  expect_each_once(ranges, {0, kMore});
  ASSERT_GE(ranges.size(), 2U);
  EXPECT_EQ(ranges[ranges.size() - 2], (IndexRange{kRows, kRows + kSome}));
  EXPECT_EQ(ranges.back(), (IndexRange{kRows + kSome, kMore}));
  EXPECT_EQ(order.next(0, kMore + 1), (IndexRange{kMore, kMore + 1})) << "even after it had ended";
}

TEST(SearchOrderTest, RowsThatHaveComeSinceDoNotComeBeforeThoseAboveTheFirstJob) {
  constexpr std::uint64_t kRows = 4 * kSome;
  SearchOrder order(0, kRows);
  const Ranges ranges = rest_of(order, 0, kRows + 1);
  expect_each_once(ranges, {0, kRows + 1});
  EXPECT_EQ(ranges.back(), (IndexRange{kRows, kRows + 1}));
}

TEST(SearchOrderTest, DiscardedRowsDoNotCome) {
  constexpr std::uint64_t kRows = 4 * kSome;
  constexpr std::uint64_t kDiscarded = kSome + 5;
  SearchOrder order(3 * kSome, kRows);
  expect_each_once(rest_of(order, kDiscarded, kRows), {kDiscarded, kRows});
}

}  // namespace
}  // namespace locksley::daemon
