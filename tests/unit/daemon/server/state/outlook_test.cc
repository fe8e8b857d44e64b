#include "daemon/server/state/outlook.h"

#include <gtest/gtest.h>

namespace locksley::daemon {
namespace {

using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(OutlookTest, AMeasuredRateSaysWhenABatchIsOver) {
  const Outlook is = outlook_of({.measured = 10.0, .slots = 4, .job_cost = microseconds(1), .left = 50});
  EXPECT_DOUBLE_EQ(is.jobs_per_second, 10);
  EXPECT_EQ(is.eta_ms, 5000);
}

TEST(OutlookTest, BeforeJobsHaveEndedTheRateIsEstimated) {
  EXPECT_EQ(outlook_of({.slots = 4, .left = 50}).eta_ms, -1) << "the cost of a job is not known";
  const Outlook is = outlook_of({.slots = 4, .job_cost = seconds(2), .left = 50, .until_start = seconds(60)});
  EXPECT_DOUBLE_EQ(is.jobs_per_second, 2);
  EXPECT_EQ(is.eta_ms, 85'000);
}

// For example at the limit of results: its jobs have cost a microsecond each, and none starts.
TEST(OutlookTest, ABatchThatIsKeptFromRunningHasNoEstimate) {
  for (const Progress progress : {Progress::kUncertain, Progress::kNone}) {
    const Outlook is =
        outlook_of({.progress = progress, .slots = 4, .job_cost = microseconds(1), .left = 1000});
    EXPECT_EQ(is.jobs_per_second, 0);
    EXPECT_EQ(is.eta_ms, -1);
  }
}

TEST(OutlookTest, ABatchThatStopsForMomentsKeepsItsMeasuredRate) {
  const Outlook is = outlook_of({.progress = Progress::kUncertain, .measured = 10.0, .left = 50});
  EXPECT_DOUBLE_EQ(is.jobs_per_second, 10);
  EXPECT_EQ(is.eta_ms, 5000);
}

TEST(OutlookTest, ABatchThatWaitsForACommandHasNoEnd) {
  const Outlook is = outlook_of({.progress = Progress::kNone, .measured = 10.0, .left = 50});
  EXPECT_DOUBLE_EQ(is.jobs_per_second, 10);
  EXPECT_EQ(is.eta_ms, -1);
}

// Its jobs take longer than they did, or it waits for its turn.
TEST(OutlookTest, TheEstimateBecomesLowerWhileNoJobEnds) {
  const Outlook is = outlook_of({.slots = 2, .job_cost = microseconds(1), .silence = minutes(1), .left = 4});
  EXPECT_DOUBLE_EQ(is.jobs_per_second, 2 / 60.0);
  EXPECT_EQ(is.eta_ms, 120'000);
}

TEST(OutlookTest, AnEndInMoreThanAYearIsNotKnown) {
  EXPECT_EQ(outlook_of({.measured = 1.0, .left = 1'000'000'000}).eta_ms, -1);
}

}  // namespace
}  // namespace locksley::daemon
