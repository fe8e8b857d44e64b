#include "core/sync/parker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

namespace locksley {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

nanoseconds cpu_time_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

TEST(ParkerTest, TokenGivenBeforeIsTakenAtOnce) {
  Parker parker;
  parker.unpark();
  parker.park();  // would block for ever
  EXPECT_FALSE(parker.park_for(nanoseconds(0)));
}

TEST(ParkerTest, TokensDoNotAddUp) {
  Parker parker;
  parker.unpark();
  parker.unpark();
  EXPECT_TRUE(parker.park_for(nanoseconds(0)));
  EXPECT_FALSE(parker.park_for(nanoseconds(0)));
}

TEST(ParkerTest, ParkForWaitsUntilItsTimeIsOver) {
  Parker parker;
  const auto start = steady_clock::now();
  EXPECT_FALSE(parker.park_for(milliseconds(20)));
  EXPECT_GE(steady_clock::now() - start, milliseconds(20));
}

TEST(ParkerTest, ParkForLeavesNoTraceBehind) {
  Parker parker;
  EXPECT_FALSE(parker.park_for(milliseconds(1)));
  parker.unpark();
  EXPECT_TRUE(parker.park_for(nanoseconds(0)));
}

TEST(ParkerTest, NoOrNegativeTimeOnlyLooks) {
  Parker parker;
  EXPECT_FALSE(parker.park_for(nanoseconds(0)));
  EXPECT_FALSE(parker.park_for(nanoseconds::min()));
  parker.unpark();
  EXPECT_TRUE(parker.park_for(nanoseconds::min()));
}

TEST(ParkerTest, UnparkWakesTheParkedThread) {
  Parker parker;
  int written = 0;
  {
    std::jthread other([&] {
      written = 1;
      parker.unpark();
    });
    parker.park();
    EXPECT_EQ(written, 1);
  }
  EXPECT_FALSE(parker.park_for(nanoseconds(0)));
}

TEST(ParkerTest, EndlessParkForIsWokenToo) {
  Parker parker;
  std::jthread other([&] { parker.unpark(); });
  EXPECT_TRUE(parker.park_for(nanoseconds::max()));
}

TEST(FutexTest, AWaitThatIsWokenSaysThatItsTimeWasNotOver) {
  Futex word{5};
  std::atomic<bool> ended{false};
  bool in_time = false;
  std::jthread sleeper([&] {
    in_time = word.wait_while_until(5, steady_clock::now() + std::chrono::minutes(5));
    ended = true;
  });
  while (!ended) {
    word.wake_one();
    std::this_thread::yield();
  }
  sleeper.join();
  EXPECT_TRUE(in_time);
}

TEST(FutexTest, AWaitForAnotherValueReturnsAtOnce) {
  Futex word{5};
  word.wait_while(4);  // would block for ever
  EXPECT_TRUE(word.wait_while_until(4, steady_clock::now() + std::chrono::minutes(5)));
  const auto deadline = steady_clock::now() + milliseconds(1);
  while (word.wait_while_until(5, deadline)) {
  }
  EXPECT_GE(steady_clock::now(), deadline);
}

TEST(ParkerTest, ParkingUsesNoProcessorTime) {
  Parker parker;
  const auto before = cpu_time_of_this_thread();
  EXPECT_FALSE(parker.park_for(milliseconds(50)));
  EXPECT_LT(cpu_time_of_this_thread() - before, milliseconds(10));
}

}  // namespace
}  // namespace locksley
