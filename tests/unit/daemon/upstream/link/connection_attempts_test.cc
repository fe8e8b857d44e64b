// When the link connects again, and for how long it has been refused.
#include "daemon/upstream/link/connection_attempts.h"

#include <gtest/gtest.h>

#include <chrono>

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;
using Outcome = ConnectionAttempts::Outcome;

class ConnectionAttemptsTest : public ::testing::Test {
 protected:
  // An attempt ends so, at the instant that it was due. How long until the next one.
  Nanoseconds pause_after(const Outcome& outcome) {
    const Nanoseconds now = attempts.next_at();
    attempts.ended(outcome, now);
    return attempts.next_at() - now;
  }

  ConnectionAttempts attempts{client::parse_addresses("a:1", 7771).value(), client::Route::Reach::kAnywhere,
                              1, 5s};
};

TEST_F(ConnectionAttemptsTest, TheFirstIsDueAtOnce) { EXPECT_EQ(attempts.next_at(), 5s); }

TEST_F(ConnectionAttemptsTest, PausesDoubleUpToFiveSecondsAndBeginAnewAfterAJoin) {
  Nanoseconds whole = 100ms;
  for (int i = 0; i < 10; ++i) {
    const Nanoseconds pause = pause_after({.trouble = "refused"});
    EXPECT_GE(pause, whole / 2) << i;
    EXPECT_LE(pause, whole) << i;
    whole = std::min<Nanoseconds>(2 * whole, 5s);
  }
  attempts.joined({});
  EXPECT_LE(pause_after({.trouble = "closed", .has_joined = true}), 100ms);
}

TEST_F(ConnectionAttemptsTest, PausesAreShortWhileLeasesAreHeld) {
  for (int i = 0; i < 10; ++i) EXPECT_LE(pause_after({.trouble = "refused", .holds_leases = true}), 1s) << i;
  EXPECT_GT(pause_after({.trouble = "refused"}), 1s) << "else the bound is not what made them short";
}

TEST_F(ConnectionAttemptsTest, TheDaemonThatAStandbyNamesIsTriedAtOnce) {
  EXPECT_EQ(pause_after({.trouble = "READONLY the active daemon is b:2"}), 0s);
  EXPECT_EQ(attempts.address().text(), "b:2");
}

TEST_F(ConnectionAttemptsTest, AnUpstreamThatClosesWhatItLetJoinIsNotAskedWithoutAPause) {
  attempts.joined({"b:2", "c:3"});
  EXPECT_GE(pause_after({.trouble = "closed", .has_joined = true}), 50ms);
}

TEST_F(ConnectionAttemptsTest, RefusalsForHandlersCountFromTheFirstOfTheLastOnes) {
  EXPECT_EQ(attempts.refused_for_handlers(10s), 10s);
  attempts.ended({.trouble = "NOHANDLER"}, 10s);
  EXPECT_EQ(attempts.refused_for_handlers(20s), 10s);
  attempts.ended({.trouble = "NOHANDLER"}, 20s);
  attempts.ended({.trouble = "the connection was closed"}, 30s);
  EXPECT_EQ(attempts.refused_for_handlers(40s), 40s) << "another answer came between";
}

}  // namespace
}  // namespace locksley::daemon
