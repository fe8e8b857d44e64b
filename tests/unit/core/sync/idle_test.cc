// Who is counted as searching, parked or helping, and who is woken. One thread plays all workers.
#include "core/sync/idle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace locksley {
namespace {

using std::chrono::nanoseconds;

class IdleTest : public ::testing::Test {
 protected:
  IdleTest() { idle.set_workers(4); }
  // Whether the sleeper was woken since the last call.
  static bool was_woken(Idle::Sleeper& sleeper) { return sleeper.parker.park_for(nanoseconds(0)); }

  Idle idle;
  std::array<Idle::Sleeper, 3> sleepers;
  const int batch = 0;  // two addresses that stand for batches
  const int other = 0;
};

TEST_F(IdleTest, HalfOfTheWorkersMaySearch) {
  EXPECT_FALSE(idle.has_free_worker());
  EXPECT_TRUE(idle.try_search());
  EXPECT_TRUE(idle.has_free_worker());
  EXPECT_TRUE(idle.is_sole_searcher());
  EXPECT_TRUE(idle.try_search());
  EXPECT_FALSE(idle.is_sole_searcher());
  EXPECT_FALSE(idle.try_search());
  EXPECT_FALSE(idle.end_search());
  EXPECT_TRUE(idle.is_sole_searcher());
  EXPECT_TRUE(idle.end_search()) << "it was the last";
  EXPECT_FALSE(idle.has_free_worker());
}

TEST_F(IdleTest, ALoneWorkerMaySearch) {
  idle.set_workers(1);
  EXPECT_TRUE(idle.try_search());
  EXPECT_FALSE(idle.try_search());
}

TEST_F(IdleTest, WorkWakesTheLastThatParkedUnlessSomebodySearches) {
  idle.notify();  // nobody is parked
  for (Idle::Sleeper& sleeper : sleepers) idle.enter_park(sleeper, Idle::From::kActive);
  EXPECT_TRUE(idle.has_parked_worker());
  EXPECT_TRUE(idle.has_free_worker());
  idle.notify();
  EXPECT_TRUE(was_woken(sleepers[2])) << "its caches are warmest";
  EXPECT_TRUE(idle.is_sole_searcher()) << "the woken worker counts as a searcher";
  idle.notify();
  EXPECT_FALSE(was_woken(sleepers[1]));
  EXPECT_FALSE(was_woken(sleepers[0]));
  idle.return_from_park(sleepers[2]);
  EXPECT_TRUE(idle.is_sole_searcher());
  EXPECT_TRUE(idle.end_search());
  idle.notify();
  EXPECT_TRUE(was_woken(sleepers[1]));
}

TEST_F(IdleTest, ASearcherThatParksSearchesNoLonger) {
  EXPECT_TRUE(idle.try_search());
  idle.enter_park(sleepers[0], Idle::From::kSearching);
  EXPECT_FALSE(idle.is_sole_searcher());
  idle.notify();
  EXPECT_TRUE(was_woken(sleepers[0]));
}

TEST_F(IdleTest, AWorkerThatSeesWorkAfterAllLeavesTheListAndSearches) {
  idle.enter_park(sleepers[0], Idle::From::kActive);
  idle.leave_park(sleepers[0]);
  EXPECT_FALSE(idle.has_parked_worker());
  EXPECT_TRUE(idle.is_sole_searcher());
  idle.end_search();
  idle.notify();
  EXPECT_FALSE(was_woken(sleepers[0]));
}

TEST_F(IdleTest, AWorkerThatWasWokenBeforeItLeftTakesItsToken) {
  idle.enter_park(sleepers[0], Idle::From::kActive);
  idle.notify();
  idle.leave_park(sleepers[0]);
  EXPECT_TRUE(idle.is_sole_searcher());
  EXPECT_FALSE(was_woken(sleepers[0])) << "the token is gone";
}

TEST_F(IdleTest, ATokenThatWasLeftOverTakesTheWorkerOffTheList) {
  idle.enter_park(sleepers[0], Idle::From::kActive);
  sleepers[0].parker.unpark();
  sleepers[0].parker.park();
  idle.return_from_park(sleepers[0]);
  EXPECT_TRUE(idle.is_sole_searcher());
  EXPECT_FALSE(idle.has_parked_worker());
  idle.return_from_park(sleepers[0]);
  EXPECT_TRUE(idle.is_sole_searcher()) << "it is counted once";
}

TEST_F(IdleTest, EverybodyIsWokenAtOnceIfAsked) {
  for (Idle::Sleeper& sleeper : sleepers) idle.enter_park(sleeper, Idle::From::kActive);
  idle.wake_all();
  for (Idle::Sleeper& sleeper : sleepers) EXPECT_TRUE(was_woken(sleeper));
  EXPECT_FALSE(idle.has_parked_worker());
  EXPECT_FALSE(idle.end_search());
  EXPECT_FALSE(idle.end_search());
  EXPECT_TRUE(idle.end_search()) << "all three were counted as searchers";
}

TEST_F(IdleTest, ATaskIsWantedByWhoeverIsParkedOrHelpsWhileNobodySearches) {
  EXPECT_FALSE(idle.needs_wake_for_task(&batch));
  idle.enter_park(sleepers[0], Idle::From::kActive);
  EXPECT_TRUE(idle.needs_wake_for_task(&batch));
  EXPECT_TRUE(idle.try_search());
  EXPECT_FALSE(idle.needs_wake_for_task(&batch));
  idle.end_search();
  idle.leave_park(sleepers[0]);
  idle.end_search();
  EXPECT_FALSE(idle.needs_wake_for_task(&batch));
  idle.enter_help(sleepers[1], &batch);
  EXPECT_TRUE(idle.needs_wake_for_task(&batch));
}

// Else each spawn would take the mutex as long as a job of another batch waits for its sub-jobs.
TEST_F(IdleTest, ATaskIsNotWantedByHelpersOfOtherBatches) {
  std::array<int, 640> others{};  // some share the bit of one helped batch
  idle.enter_help(sleepers[0], &others[0]);
  idle.enter_help(sleepers[1], &others[0]);
  const auto wanted = [&] {
    return std::ranges::count_if(others, [&](const int& each) { return idle.needs_wake_for_task(&each); });
  };
  EXPECT_TRUE(idle.needs_wake_for_task(&others[0]));
  EXPECT_LT(wanted(), 64) << "one in 64 is expected";
  EXPECT_FALSE(idle.leave_help(sleepers[0]));
  EXPECT_TRUE(idle.needs_wake_for_task(&others[0])) << "the other helper is still there";
  idle.wake_for_task(&others[0]);
  EXPECT_TRUE(was_woken(sleepers[1]));
  EXPECT_EQ(wanted(), 0);
}

TEST_F(IdleTest, ATaskWakesAParkedWorkerBeforeAHelper) {
  idle.enter_help(sleepers[0], &batch);
  idle.enter_park(sleepers[1], Idle::From::kActive);
  idle.wake_for_task(&batch);
  EXPECT_TRUE(was_woken(sleepers[1]));
  EXPECT_FALSE(was_woken(sleepers[0]));
}

TEST_F(IdleTest, ATaskWakesNobodyWhileSomebodySearches) {
  idle.enter_help(sleepers[0], &batch);
  EXPECT_TRUE(idle.try_search());
  idle.wake_for_task(&batch);
  EXPECT_FALSE(was_woken(sleepers[0]));
}

TEST_F(IdleTest, ATaskWakesAHelperOfItsBatchAlone) {
  idle.enter_help(sleepers[0], &batch);
  idle.enter_help(sleepers[1], &other);
  EXPECT_TRUE(idle.has_parked_worker());
  idle.wake_for_task(&other);
  EXPECT_TRUE(was_woken(sleepers[1]));
  EXPECT_FALSE(was_woken(sleepers[0]));
  EXPECT_TRUE(idle.leave_help(sleepers[1])) << "it was woken for a task";
  idle.wake_for_task(&other);
  EXPECT_FALSE(was_woken(sleepers[0])) << "no helper of that batch is left";
  EXPECT_FALSE(idle.leave_help(sleepers[0])) << "it was not";
  EXPECT_FALSE(idle.has_parked_worker());
  idle.wake_for_task(&batch);
  EXPECT_FALSE(was_woken(sleepers[0]));
}

TEST_F(IdleTest, AHelperIsNotFree) {
  idle.enter_help(sleepers[0], &batch);
  EXPECT_FALSE(idle.has_free_worker());
  idle.notify();
  EXPECT_FALSE(was_woken(sleepers[0])) << "it cannot take other work";
}

}  // namespace
}  // namespace locksley
