// What a daemon makes of the rows of all daemons, look by look.
#include "daemon/store/postgres/node_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace locksley::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using State = ClusterNode::State;

NodeRow active(std::int32_t node, std::int64_t beat) {
  return {
      .node = node, .name = "a", .wire = "", .is_alive = true, .committed = 5, .beat = beat, .shards = 64};
}
NodeRow standby(std::int32_t node, std::int64_t beat) {
  return {.node = node, .name = "s", .wire = "", .committed = kNeverActive, .beat = beat};
}
NodeRow former(std::int32_t node) {
  return {.node = node, .name = "f", .wire = "", .committed = 9, .beat = 3};
}

class NodeWatchTest : public ::testing::Test {
 protected:
  ClusterView see(const std::vector<NodeRow>& rows) { return watch.see(rows, at); }

  NodeWatch watch{milliseconds(5000)};
  Instant at{std::chrono::hours(1)};
};

TEST_F(NodeWatchTest, ABeatIsASignOfLifeOnlyWhenItChanges) {
  see({active(1, 10)});
  at += milliseconds(900);
  EXPECT_EQ(see({active(1, 10)}).nodes[0].beat_age(at), milliseconds(900));
  at += milliseconds(100);
  EXPECT_EQ(see({active(1, 11)}).nodes[0].beat_age(at), milliseconds(0));
}

TEST_F(NodeWatchTest, ADaemonThatStandsByAndIsSilentForALeaseIsGone) {
  EXPECT_EQ(see({standby(1, 1)}).nodes[0].state, State::kStandby);
  at += milliseconds(4999);
  EXPECT_EQ(see({standby(1, 1)}).nodes[0].state, State::kStandby);
  at += milliseconds(1);
  EXPECT_EQ(see({standby(1, 1)}).nodes[0].state, State::kGone);
  EXPECT_EQ(see({standby(1, 2)}).nodes[0].state, State::kStandby) << "it was paused";
}

TEST_F(NodeWatchTest, OnlyADaemonThatLivesOwnsShards) {
  EXPECT_EQ(see({active(1, 1), standby(2, 1)}).unowned_shards, 0U);
  NodeRow dead = former(1);
  dead.shards = 64;
  EXPECT_EQ(see({dead, standby(2, 1)}).unowned_shards, 64U);
  EXPECT_EQ(see({dead}).active(), nullptr);
}

TEST_F(NodeWatchTest, ADaemonThatHasGoneIsOutdatedTenMinutesLater) {
  see({active(1, 1), standby(2, 1)});
  at += minutes(60);
  see({former(1), standby(2, 2)});
  EXPECT_TRUE(watch.outdated().empty()) << "it was active a moment ago";
  at += minutes(10);
  see({former(1), standby(2, 3)});
  ASSERT_EQ(watch.outdated().size(), 1U);
  EXPECT_EQ(watch.outdated()[0].node, 1);
}

TEST_F(NodeWatchTest, OfManyThatHaveGoneTheOldestAreOutdatedAtOnce) {
  std::vector<NodeRow> rows;
  for (std::int32_t node = 1; node <= 18; ++node) rows.push_back(former(node));
  rows.push_back(standby(19, 1));
  see(rows);
  ASSERT_EQ(watch.outdated().size(), 2U);
  EXPECT_EQ(watch.outdated()[0].node, 1);
  EXPECT_EQ(watch.outdated()[1].node, 2);
}

}  // namespace
}  // namespace locksley::daemon
