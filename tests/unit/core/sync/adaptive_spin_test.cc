#include "core/sync/adaptive_spin.h"

#include <gtest/gtest.h>

namespace locksley {
namespace {

// Waits that are over at once, until the thread takes to looking; the test's own thread may be held
// up.
void teach(AdaptiveSpin& spin) {
  for (int tries = 0; tries < 1'000; ++tries) {
    int looks = 0;
    if (spin.poll(true, [&] { return ++looks == 1; })) return;
    spin.parked();
  }
  FAIL() << "never looked, after a thousand short waits";
}

TEST(AdaptiveSpinTest, DoesNotLookBeforeItSawAShortWait) {
  AdaptiveSpin spin;
  EXPECT_FALSE(spin.poll(true, [] { return ADD_FAILURE(), true; }));
}

TEST(AdaptiveSpinTest, LooksOnceItsWaitsAreShort) {
  AdaptiveSpin spin;
  teach(spin);
}

TEST(AdaptiveSpinTest, DoesNotLookWhereItMayNot) {
  AdaptiveSpin spin;
  teach(spin);
  EXPECT_FALSE(spin.poll(false, [] { return ADD_FAILURE(), true; }));
}

TEST(AdaptiveSpinTest, EndsALookInVain) {
  AdaptiveSpin spin;
  teach(spin);
  EXPECT_FALSE(spin.poll(true, [] { return false; }));
}

TEST(AdaptiveSpinTest, StopsLookingWhenItIsInVainAgainAndAgain) {
  AdaptiveSpin spin;
  teach(spin);
  bool looked = true;
  for (int waits = 0; looked && waits < 10; ++waits) {
    looked = false;
    EXPECT_FALSE(spin.poll(true, [&] {
      looked = true;
      return false;
    }));
    std::this_thread::sleep_for(2 * AdaptiveSpin::kLongest);
    spin.parked();
  }
  EXPECT_FALSE(looked);
}

}  // namespace
}  // namespace locksley
