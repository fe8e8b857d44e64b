// The states of a connection, and the steps between them.
#include "daemon/connection/life.h"

#include <gtest/gtest.h>

#include <vector>

namespace locksley::daemon {
namespace {

TEST(ConnectionLifeTest, ADroppedConnectionStaysDroppedUntilItHasEnded) {
  ConnectionLife life(Life::kServing);
  EXPECT_TRUE(life.go_to(Life::kDropped));
  for (const Life later : {Life::kHandshake, Life::kStranger, Life::kServing, Life::kFinishing,
                           Life::kLastReply, Life::kDropped}) {
    EXPECT_FALSE(life.go_to(later));
    EXPECT_EQ(life.now(), Life::kDropped);
  }
  EXPECT_TRUE(life.go_to(Life::kEnded));
  EXPECT_TRUE(life.is_dropped());
}

TEST(ConnectionLifeTest, OnlyALogoutGoesBack) {
  const std::vector<Life> order = {Life::kHandshake, Life::kStranger, Life::kServing, Life::kFinishing,
                                   Life::kLastReply, Life::kDropped,  Life::kEnded};
  for (std::size_t from = 0; from < order.size(); ++from) {
    for (std::size_t to = 0; to < order.size(); ++to) {
      const bool is_logout = order[from] == Life::kServing && order[to] == Life::kStranger;
      EXPECT_EQ(may_follow(order[from], order[to]), from < to || is_logout) << from << " to " << to;
    }
  }
}

TEST(ConnectionLifeTest, AFinishingConnectionIsNeitherOpenNorClosing) {
  ConnectionLife life(Life::kStranger);
  EXPECT_TRUE(life.is_open());
  EXPECT_TRUE(life.go_to(Life::kServing));
  EXPECT_TRUE(life.is_open());
  EXPECT_TRUE(life.go_to(Life::kFinishing));
  EXPECT_FALSE(life.is_open());
  EXPECT_FALSE(life.is_closing());
  EXPECT_TRUE(life.go_to(Life::kLastReply));
  EXPECT_TRUE(life.is_closing());
  EXPECT_FALSE(life.is_dropped());
}

}  // namespace
}  // namespace locksley::daemon
