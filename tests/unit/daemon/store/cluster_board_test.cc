// Whether an active daemon may show what it has in memory.
#include "daemon/store/cluster_board.h"

#include <gtest/gtest.h>

#include <chrono>

#include "daemon/base/time.h"

namespace locksley::daemon {
namespace {

using std::chrono::milliseconds;
using Role = ClusterBoard::Role;

constexpr milliseconds kLease(500);

class ClusterBoardTest : public ::testing::Test {
 protected:
  ClusterBoardTest() {
    board.set_lease(kLease);
    board.beaten(start);
  }

  const Instant start = now() - 2 * kLease;
  ClusterBoard board;
};

TEST_F(ClusterBoardTest, IsUnconfirmedOnceALeaseHasPassedSinceASignOfLifeWasSent) {
  EXPECT_FALSE(board.is_unconfirmed(start));
  EXPECT_FALSE(board.is_unconfirmed(start + kLease - milliseconds(1)));
  EXPECT_TRUE(board.is_unconfirmed(start + kLease));
  board.beaten(start + milliseconds(100));
  EXPECT_FALSE(board.is_unconfirmed(start + kLease));
  EXPECT_TRUE(board.is_unconfirmed(start + kLease + milliseconds(100)));
}

TEST_F(ClusterBoardTest, ASignOfLifeThatIsConfirmedAfterALaterOneChangesNothing) {
  board.beaten(start + milliseconds(800));
  board.beaten(start + milliseconds(300));
  EXPECT_EQ(board.beaten_at(), start + milliseconds(800));
}

TEST_F(ClusterBoardTest, TheOtherDaemonsWordHoldsForAWhile) {
  const Instant asked = start + kLease + milliseconds(300);
  board.found_uncontested(asked);
  EXPECT_FALSE(board.is_unconfirmed(asked + ClusterBoard::kUncontestedFor - milliseconds(1)));
  EXPECT_TRUE(board.is_unconfirmed(asked + ClusterBoard::kUncontestedFor));
}

TEST_F(ClusterBoardTest, OnlyTheActiveDaemonIsUnconfirmed) {
  EXPECT_EQ(board.role(), Role::kUnconfirmed);
  board.beaten(now() + std::chrono::hours(1));  // however long the test is held up
  EXPECT_EQ(board.role(), Role::kActive);
  board.set_role(Role::kLoading);
  board.set_lease(milliseconds(0));
  EXPECT_EQ(board.role(), Role::kLoading);
  board.set_role(Role::kActive);
  EXPECT_EQ(board.role(), Role::kActive) << "no other daemon can have its store";
}

}  // namespace
}  // namespace locksley::daemon
