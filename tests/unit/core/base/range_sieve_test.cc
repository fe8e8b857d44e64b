#include "core/base/range_sieve.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/base/index_range.h"

namespace locksley {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(RangeSieveTest, NoneThatOverlapsIsPassedOver) {
  for (const std::uint64_t spread : {1U, 7U, 100U, 65'536U, 1'000'003U}) {
    std::vector<IndexRange> some;
    for (std::uint64_t i = 0; i < 50; ++i) some.push_back({i * i * spread, i * i * spread + 1 + i % 3});
    some.back().high += 20 * spread;
    const RangeSieve sieve(some);
    for (const IndexRange& range : some) {
      EXPECT_TRUE(sieve.may_overlap(range));
      EXPECT_TRUE(sieve.may_overlap({range.high - 1, kMost}));
      EXPECT_TRUE(sieve.may_overlap({0, range.low + 1}));
      EXPECT_TRUE(sieve.may_overlap({range.low, range.low + 9 * spread}));
    }
  }
  const RangeSieve last(std::vector<IndexRange>{{kMost - 1, kMost}});
  EXPECT_TRUE(last.may_overlap({kMost - 1, kMost}));
  EXPECT_FALSE(last.may_overlap({0, 1}));
}

TEST(RangeSieveTest, NearlyAllOfVeryManyThatDoNotOverlapArePassedOver) {
  std::vector<IndexRange> some;
  for (std::uint64_t i = 0; i < 1'000; ++i) some.push_back({200 * i, 200 * i + 1});
  const RangeSieve sieve(some);
  int looked_at = 0;
  for (std::uint64_t low = 0; low < 200'000; low += 2) {
    if (sieve.may_overlap({low, low + 1})) ++looked_at;
  }
  EXPECT_LT(looked_at, 3'000) << "of 100,000; 1,000 overlap";
  EXPECT_FALSE(sieve.may_overlap({1'000'000, kMost})) << "above all";
}

TEST(RangeSieveTest, OfNoneAllArePassedOver) {
  const RangeSieve sieve(std::span<const IndexRange>{});
  EXPECT_FALSE(sieve.may_overlap({0, 1}));
}

}  // namespace
}  // namespace locksley
