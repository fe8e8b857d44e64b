#include "core/base/histogram.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace locksley {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(HistogramTest, ADurationEqualToABoundIsInItsBucketAndALongerOneInTheNext) {
  for (std::size_t i = 0; i < DurationHistogram::kBoundsSeconds.size(); ++i) {
    const Nanoseconds bound{static_cast<std::int64_t>(DurationHistogram::kBoundsSeconds[i] * 1e9 + 0.5)};
    EXPECT_EQ(DurationHistogram::bucket_of(bound), i);
    EXPECT_EQ(DurationHistogram::bucket_of(bound + Nanoseconds{1}), i + 1);
  }
  EXPECT_EQ(DurationHistogram::bucket_of(Nanoseconds{0}), 0u);
  EXPECT_EQ(DurationHistogram::bucket_of(std::chrono::hours(24)), DurationHistogram::kBuckets - 1);
}

TEST(HistogramTest, CountsAndSumAreThoseOfAllObservations) {
  DurationHistogram histogram;
  histogram.observe(microseconds(1));
  histogram.observe(microseconds(3), 5);
  histogram.observe(seconds(100));
  const DurationHistogram::Snapshot snapshot = histogram.snapshot();
  EXPECT_EQ(snapshot.counts[0], 1u);
  EXPECT_EQ(snapshot.counts[1], 5u);
  EXPECT_EQ(snapshot.counts[DurationHistogram::kBuckets - 1], 1u);
  EXPECT_EQ(std::accumulate(snapshot.counts.begin(), snapshot.counts.end(), std::uint64_t{0}), 7u);
  EXPECT_NEAR(snapshot.sum_seconds, 100.000016, 1e-9);
}

}  // namespace
}  // namespace locksley
