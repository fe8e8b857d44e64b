// Parking under real threads: no token is lost, and what was written before an unpark is seen after
// the park.
#include "core/sync/parker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>

#include "tests/support/seed.h"
#include "tests/support/threads.h"

namespace locksley {
namespace {

using std::chrono::nanoseconds;
using testing::Deadline;
using testing::run_together;
using testing::stress_random;
using testing::stress_time;

// A lost token hangs this for ever: each side waits for the other.
TEST(ParkerStressTest, TwoThreadsPassATokenToAndFro) {
  Parker parkers[2];
  std::uint64_t ball = 0;  // plain memory: ThreadSanitizer checks that parking orders it
  bool over = false;       // as ball
  const Deadline deadline(stress_time());
  run_together(2, [&](std::size_t self) {
    for (std::uint64_t turn = 0;; ++turn) {
      if (self == 1 || turn > 0) {
        parkers[self].park();
      }
      if (over) {
        parkers[1 - self].unpark();
        return;
      }
      ASSERT_EQ(ball, 2 * turn + self);
      ++ball;
      over = ball > 2 && deadline.passed();
      parkers[1 - self].unpark();
    }
  });
  EXPECT_TRUE(over);
  EXPECT_GT(ball, 2u);
}

// Publish, then unpark; park, then look: whatever was published is found, with several threads
// unparking at once.
TEST(ParkerStressTest, NoPublicationIsMissed) {
  constexpr std::size_t kGivers = 3;
  Parker parker;
  std::atomic<std::uint64_t> given = 0;
  std::atomic<std::size_t> givers_left = kGivers;
  std::uint64_t seen = 0;
  const Deadline deadline(stress_time());
  run_together(1 + kGivers, [&](std::size_t thread) {
    if (thread == 0) {
      while (true) {
        const bool last = givers_left == 0;
        seen += given.exchange(0);
        if (last) {
          return;
        }
        parker.park();
      }
    }
    auto random = stress_random(thread);
    do {
      given += 1;
      parker.unpark();
      testing::spin(random() % 512);
    } while (!deadline.passed());
    --givers_left;
    parker.unpark();
  });
  EXPECT_EQ(given, 0u);
  EXPECT_GT(seen, 0u);
}

// Times that run out just as the token comes: each token is taken exactly once, then or by the next
// park.
TEST(ParkerStressTest, TokenThatComesAtTheDeadlineIsNotLost) {
  Parker taker;
  Parker giver;
  const Deadline deadline(stress_time());
  std::uint64_t given = 0;
  std::uint64_t taken = 0;
  std::atomic<bool> over = false;
  run_together(2, [&](std::size_t thread) {
    auto random = stress_random(thread);
    if (thread == 0) {
      while (!over) {
        if (taker.park_for(nanoseconds(random() % 20'000))) {
          ++taken;
          giver.unpark();
        }
      }
      return;
    }
    do {
      testing::spin(random() % 4'096);
      ++given;
      taker.unpark();
      giver.park();  // for ever, if the token was lost
    } while (!deadline.passed());
    over = true;
    taker.unpark();
  });
  EXPECT_GT(given, 0u);
  EXPECT_GE(taken, given);
  EXPECT_LE(taken, given + 1);  // the token that says that it is over
}

}  // namespace
}  // namespace locksley
