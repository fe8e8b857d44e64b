// Progress lines, and the rate in them.

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>

#include "daemon/cli/context/progress.h"

namespace locksley::cli {
namespace {

TEST(CliProgressTest, ALineSaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(progress_line({.done = 500, .failed = 2, .total = 1000}, 250, 65),
            "[#######-------] 500/1,000 50.0%  2 failed  250 jobs/s  2.0s left");
}

TEST(CliProgressTest, AnOpenBatchHasNoEnd) {
  EXPECT_EQ(progress_line({.done = 5, .total = 10, .is_open = true}, 1000, 60), "5/10+  1k jobs/s");
}

TEST(CliProgressTest, NoLineIsLongerThanItsRoom) {
  for (const std::uint64_t done : {0ULL, 1ULL, 123'456'789'012ULL}) {
    for (std::size_t width = 1; width < 120; ++width) {
      for (const bool open : {false, true}) {
        const ProgressCounts counts{.done = done, .failed = done, .total = 123'456'789'012, .is_open = open};
        EXPECT_LE(progress_line(counts, 0.001, width).size(), width);
      }
    }
  }
}

TEST(CliProgressTest, ABatchWithoutJobsIsComplete) {
  EXPECT_THAT(progress_line({}, 0, 60), ::testing::HasSubstr("0/0 100.0%"));
}

TEST(CliProgressTest, TheRateFollowsAChangeAndForgetsTheOldOne) {
  const RateMeter::Time start{};
  RateMeter meter(start);
  meter.update(1000, start + std::chrono::seconds(1));
  EXPECT_DOUBLE_EQ(meter.per_second(), 1000);
  meter.update(1000, start + std::chrono::seconds(4));
  EXPECT_NEAR(meter.per_second(), 1000 / std::exp(1.0), 1);
  meter.update(1000, start + std::chrono::seconds(64));
  EXPECT_LT(meter.per_second(), 1);
}

}  // namespace
}  // namespace locksley::cli
