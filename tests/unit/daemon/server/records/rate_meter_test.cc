#include "daemon/server/records/rate_meter.h"

#include <gmock/gmock.h>

namespace locksley::daemon {
namespace {

using std::chrono::milliseconds;
using Work = RateMeter::Work;

// A meter and its batch, on the test's clock.
struct MeteredBatch {
  RateMeter meter;
  Instant at = Instant{} + std::chrono::hours(1);
  std::uint64_t ended = 0;

  void change(milliseconds after, std::uint64_t more, Work work = Work::kSome) {
    at += after;
    ended += more;
    meter.update(at, ended, work);
  }
  double rate(milliseconds later = milliseconds(0)) const {
    return meter.per_second(at + later, ended).value_or(-1);
  }
};

TEST(RateMeterTest, InTheFirstSecondsItIsTheRateSinceTheStart) {
  MeteredBatch batch;
  EXPECT_EQ(batch.rate(), -1);
  batch.change(milliseconds(0), 0);
  EXPECT_EQ(batch.rate(milliseconds(500)), -1) << "nothing has ended";
  for (int tick = 1; tick <= 25; ++tick) {
    batch.change(milliseconds(100), 30);
    EXPECT_DOUBLE_EQ(batch.rate(), 300) << tick;
  }
}

TEST(RateMeterTest, AnotherRateIsKnownWithinFiveSeconds) {
  MeteredBatch batch;
  batch.change(milliseconds(0), 0);
  for (int tick = 0; tick < 1000; ++tick) batch.change(milliseconds(10), 10);
  EXPECT_NEAR(batch.rate(), 1000, 1);
  for (int tick = 0; tick < 500; ++tick) batch.change(milliseconds(10), 1);
  EXPECT_NEAR(batch.rate(), 100, 1);
}

TEST(RateMeterTest, LongJobsAreMeasuredFromEndToEnd) {
  MeteredBatch batch;
  batch.change(milliseconds(0), 0);
  for (int job = 0; job < 5; ++job) batch.change(std::chrono::minutes(1), 2);
  EXPECT_NEAR(batch.rate(), 2 / 60.0, 1e-6);
  EXPECT_NEAR(batch.rate(std::chrono::minutes(1)), 2 / 120.0, 1e-6) << "the next ones are late";
}

TEST(RateMeterTest, ARestDoesNotCount) {
  MeteredBatch batch;
  batch.change(milliseconds(0), 0);
  for (int tick = 0; tick < 100; ++tick) batch.change(milliseconds(100), 10);
  batch.change(milliseconds(1), 0, Work::kNone);
  EXPECT_NEAR(batch.rate(milliseconds(200)), 95, 10) << "what it was";
  EXPECT_EQ(batch.rate(std::chrono::minutes(1)), -1) << "paused for long";
  batch.change(std::chrono::minutes(1), 0);
  batch.change(milliseconds(200), 20);
  EXPECT_DOUBLE_EQ(batch.rate(), 100);
}

TEST(RateMeterTest, AShortRestIsPartOfTheRate) {
  MeteredBatch batch;
  batch.change(milliseconds(0), 0);
  for (int tick = 0; tick < 20; ++tick) {
    batch.change(milliseconds(50), 5);
    batch.change(milliseconds(50), 0, Work::kNone);
    batch.change(milliseconds(0), 0);
  }
  EXPECT_NEAR(batch.rate(), 50, 0.1);
}

TEST(RateMeterTest, FailuresThatAreTakenBackBeginItAnew) {
  MeteredBatch batch;
  batch.change(milliseconds(0), 0);
  batch.change(milliseconds(1000), 500);
  batch.ended = 100;
  batch.change(milliseconds(10), 0);
  EXPECT_EQ(batch.rate(milliseconds(500)), -1);
  batch.change(milliseconds(1000), 50);
  EXPECT_DOUBLE_EQ(batch.rate(), 50);
}

TEST(RateMeterTest, ABatchThatStandsStillHasNoRateAfterFiveSeconds) {
  MeteredBatch batch;
  batch.change(milliseconds(0), 0);
  for (int tick = 0; tick < 100; ++tick) batch.change(milliseconds(100), 1000);
  EXPECT_NEAR(batch.rate(milliseconds(4900)), 5000, 2000) << "it becomes less meanwhile";
  EXPECT_EQ(batch.rate(milliseconds(5100)), -1);
  // Changes of which none is the end of a job.
  for (int tick = 0; tick < 60; ++tick) batch.change(milliseconds(100), 0);
  EXPECT_EQ(batch.rate(), -1);
  batch.change(milliseconds(4000), 20);
  EXPECT_NEAR(batch.rate(), 2, 0.1) << "20 jobs in 10 s";
}

TEST(RateMeterTest, ChangesBetweenTwoEndsOfLongJobsDoNotMatter) {
  MeteredBatch batch;
  batch.change(milliseconds(0), 0);
  for (int second = 1; second <= 300; ++second) batch.change(milliseconds(1000), second % 60 == 0 ? 2 : 0);
  for (int second = 1; second <= 59; ++second) {
    batch.change(milliseconds(1000), 0);
    EXPECT_NEAR(batch.rate(), 2.0 / (60 + second), 1e-6) << second;
  }
}

TEST(RateMeterTest, TheSilenceBeginsWithTheLastEnd) {
  MeteredBatch batch;
  EXPECT_EQ(batch.meter.silence(batch.at, 0), milliseconds(0)) << "it has not started";
  batch.change(milliseconds(0), 3);
  EXPECT_EQ(batch.meter.silence(batch.at + milliseconds(20), 3), milliseconds(20));
  batch.change(milliseconds(100), 1);
  batch.change(milliseconds(7), 0);
  EXPECT_EQ(batch.meter.silence(batch.at, 4), milliseconds(7));
  EXPECT_EQ(batch.meter.silence(batch.at, 5), milliseconds(0)) << "a job has ended since the last change";
  batch.change(milliseconds(1), 0, Work::kNone);
  batch.change(milliseconds(60'000), 0);
  EXPECT_EQ(batch.meter.silence(batch.at + milliseconds(5), 4), milliseconds(5)) << "it had nothing to run";
}

}  // namespace
}  // namespace locksley::daemon
