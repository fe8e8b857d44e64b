#include "daemon/workers/state/out_lease.h"

#include <gtest/gtest.h>

namespace locksley::daemon {
namespace {

using std::chrono::seconds;

IndexSet jobs(std::uint64_t low, std::uint64_t high) {
  IndexSet set;
  set.add({low, high});
  return set;
}

TEST(ReportedJobsTest, ABeatSaysWhichJobsHaveBegunUntilOneEnds) {
  ReportedJobs reported;
  reported.leased({10, 20});
  EXPECT_FALSE(reported.is_complete());
  EXPECT_EQ(reported.begun(jobs(10, 20)), 0u);
  (void)reported.beaten(13);
  EXPECT_TRUE(reported.is_complete());
  EXPECT_EQ(reported.begun(jobs(10, 20)), 3u);
  EXPECT_EQ(reported.begun(jobs(12, 20)), 1u) << "two of them have ended";
  reported.settled();
  EXPECT_FALSE(reported.is_complete()) << "another job may have begun in its place";
  EXPECT_EQ(reported.begun(jobs(12, 20)), 1u) << "what was said before is still true";
}

TEST(ReportedJobsTest, ABeatTellsWhetherJobsHaveBegunAndWhetherSomeAreShownThatHaveNot) {
  ReportedJobs reported;
  reported.leased({0, 8});
  auto beat = reported.beaten(0);
  EXPECT_FALSE(beat.has_risen);
  EXPECT_TRUE(beat.is_corrected) << "the first report: before it, jobs were shown that might run";
  beat = reported.beaten(5);
  EXPECT_TRUE(beat.has_risen);
  EXPECT_FALSE(beat.is_corrected);
  beat = reported.beaten(3);
  EXPECT_FALSE(beat.has_risen);
  EXPECT_TRUE(beat.is_corrected) << "two jobs went back to the machine's own queue";
}

TEST(ReportedJobsTest, ANoteAboutAJobBeyondTheBeatSaysThatMoreHaveBegun) {
  ReportedJobs reported;
  reported.leased({0, 8});
  (void)reported.beaten(2);
  reported.noted(1);
  EXPECT_TRUE(reported.is_complete());
  reported.noted(2);
  EXPECT_FALSE(reported.is_complete());
}

TEST(ReportedJobsTest, AJobRunsIfABeatANoteOrAReclaimSaysSo) {
  ReportedJobs none;
  none.leased({0, 8});
  EXPECT_FALSE(none.has_running(jobs(0, 8)));
  EXPECT_FALSE(none.has_begun());

  ReportedJobs noted = none;
  noted.noted(3);
  EXPECT_TRUE(noted.has_begun());
  EXPECT_TRUE(noted.has_running(jobs(0, 8)));
  EXPECT_FALSE(noted.has_running(jobs(4, 8))) << "that job has ended";

  ReportedJobs reclaimed = none;
  reclaimed.reclaimed();
  EXPECT_TRUE(reclaimed.has_running(jobs(0, 8)));
  reclaimed.settled();
  EXPECT_FALSE(reclaimed.has_running(jobs(1, 8))) << "the job that ran may be the one that ended";
  EXPECT_TRUE(reclaimed.has_begun());

  ReportedJobs kept = none;
  kept.kept_below(2);
  EXPECT_TRUE(kept.is_complete());
  EXPECT_TRUE(kept.has_running(jobs(0, 2)));
}

TEST(JobTimeoutTest, ItCountsFromTheBeginAndFromEachEnd) {
  JobTimeout timeout;
  timeout.came_to_front(seconds(1));
  EXPECT_EQ(timeout.since(), Nanoseconds(seconds(1)));
  timeout.job_ended(seconds(3));
  EXPECT_EQ(timeout.since(), Nanoseconds(seconds(3)));
  timeout.nothing_runs(seconds(4));
  EXPECT_EQ(timeout.since(), Nanoseconds(seconds(4)));
}

TEST(JobTimeoutTest, ADisplacedLeaseIsLateOnlyIfAJobOfItRuns) {
  JobTimeout timeout;
  timeout.came_to_front(seconds(1));
  timeout.other_ran(/*is_behind=*/true, /*has_running_job=*/false);
  EXPECT_TRUE(timeout.is_displaced());
  EXPECT_EQ(timeout.since(), std::nullopt);
  EXPECT_TRUE(timeout.job_runs(seconds(5))) << "a NOTE has come";
  EXPECT_EQ(timeout.since(), Nanoseconds(seconds(5)));
  EXPECT_FALSE(timeout.job_runs(seconds(6))) << "it counts already";
  EXPECT_EQ(timeout.since(), Nanoseconds(seconds(5)));
}

TEST(JobTimeoutTest, TheTimeOutIsPutOffOnceUntilAJobEnds) {
  JobTimeout timeout;
  timeout.came_to_front(seconds(1));
  timeout.other_ran(true, false);
  timeout.came_to_front(seconds(10));
  EXPECT_EQ(timeout.since(), Nanoseconds(seconds(10))) << "put off once";
  timeout.other_ran(true, false);
  EXPECT_EQ(timeout.since(), Nanoseconds(seconds(10))) << "the second time it counts on";
  timeout.came_to_front(seconds(20));
  EXPECT_EQ(timeout.since(), Nanoseconds(seconds(10)));
  timeout.job_ended(seconds(21));
  timeout.other_ran(true, false);
  EXPECT_EQ(timeout.since(), std::nullopt) << "a job has ended, so it may be put off again";
}

TEST(LeaseOrdersTest, ACutStandsUntilItsAnswerAndIsToldOnce) {
  LeaseOrders orders;
  EXPECT_FALSE(orders.is_cut());
  orders.cut = {.at = 7, .planned = seconds(1), .is_for_idle_worker = true};
  EXPECT_TRUE(orders.is_cut());
  orders.note_told(seconds(2));
  orders.note_told(seconds(3));
  EXPECT_EQ(orders.cut->told, Nanoseconds(seconds(2)));
  orders.cut_pushed = seconds(2);
  orders.end_cut();
  EXPECT_FALSE(orders.is_cut());
}

}  // namespace
}  // namespace locksley::daemon
