#include "daemon/workers/state/worker_clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace locksley::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WorkerClockTest : public ::testing::Test {
 protected:
  WorkerUse of_all_;
  WorkerAccount account_{1, of_all_};
  RemoteWorker worker_{7, JoinCommand{}, "user", account_, seconds(30)};
  RemoteWorker other_{8, JoinCommand{}, "user", account_, milliseconds(600)};
  WorkerClock clock_{seconds(100), seconds(2)};
};

TEST_F(WorkerClockTest, AnEarlierInstantCountsAsTheLastOne) {
  clock_.advance(seconds(101));
  clock_.advance(seconds(99));
  EXPECT_EQ(clock_.now(), seconds(101));
}

TEST_F(WorkerClockTest, TheEarliestInstantOfEachWorkerIsItsTimer) {
  clock_.arm(worker_, seconds(105));
  clock_.arm(worker_, seconds(103));
  clock_.arm(worker_, seconds(104));
  clock_.arm(other_, seconds(102));
  EXPECT_EQ(clock_.first_due(), seconds(102));
  EXPECT_FALSE(clock_.due_worker());

  clock_.advance(seconds(103));
  EXPECT_EQ(clock_.due_worker(), 8U);
  clock_.disarm(other_);
  EXPECT_EQ(clock_.due_worker(), 7U);
  clock_.disarm(worker_);
  EXPECT_FALSE(clock_.due_worker());
  EXPECT_FALSE(clock_.first_due());
}

TEST_F(WorkerClockTest, AWorkerIsSilentALeaseAfterItsLastBytes) {
  worker_.heard = seconds(100);
  EXPECT_EQ(clock_.silent_at(worker_), seconds(130));
}

TEST_F(WorkerClockTest, WhatWasNotReadForAWhileMakesNoWorkerSilentAtOnce) {
  worker_.heard = other_.heard = seconds(100);
  clock_.advance(seconds(200));
  clock_.listens_again();
  EXPECT_EQ(clock_.silent_at(worker_), seconds(201));                     // a third of its lease, at most 1 s
  EXPECT_EQ(clock_.silent_at(other_), seconds(200) + milliseconds(200));  // a third of its lease
}

TEST_F(WorkerClockTest, AWorkerThatIsNotReadIsNotSilent) {
  worker_.heard = seconds(100);
  worker_.is_read = false;
  clock_.advance(seconds(500));
  EXPECT_GT(clock_.silent_at(worker_), clock_.now());

  worker_.is_read = true;
  worker_.read_since = seconds(500);
  EXPECT_EQ(clock_.silent_at(worker_), seconds(501));
}

}  // namespace
}  // namespace locksley::daemon
