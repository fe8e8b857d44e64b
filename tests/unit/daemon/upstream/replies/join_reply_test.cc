// What the upstream says of itself in the reply to JOIN.
#include "daemon/upstream/replies/join_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

TEST(JoinReplyTest, HasWhatTheUpstreamSaysAndNothingElse) {
  const auto reply = read_join_reply(ReplyCursor(
      "%7\r\n$7\r\nbeat_ms\r\n:500\r\n$8\r\nlease_ms\r\n:10000\r\n$14\r\nlongest_output\r\n:99\r\n"
      "$5\r\nlater\r\n*2\r\n:1\r\n:2\r\n$5\r\nstore\r\n$2\r\ns1\r\n"
      "$9\r\naddresses\r\n*2\r\n$3\r\na:1\r\n$3\r\nb:2\r\n$10\r\nnot_served\r\n*1\r\n$4\r\nspin\r\n"));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->beat, 500ms);
  EXPECT_EQ(reply->lease, 10s);
  EXPECT_EQ(reply->longest_output, 99U);
  EXPECT_EQ(reply->store, "s1");
  EXPECT_THAT(reply->addresses, ElementsAre("a:1", "b:2"));
  EXPECT_THAT(reply->not_served, ElementsAre("spin"));
}

TEST(JoinReplyTest, AnEarlierUpstreamSaysLess) {
  const auto reply = read_join_reply(ReplyCursor("%1\r\n$7\r\nbeat_ms\r\n:500\r\n"));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->lease, 0ms);
  EXPECT_EQ(reply->longest_output, 0U);
  EXPECT_EQ(reply->store, "");
}

TEST(JoinReplyTest, OthersAreNoRepliesOfJoin) {
  for (const char* bytes : {"+OK\r\n", "%0\r\n", "%1\r\n$8\r\nlease_ms\r\n:10000\r\n",
                            "%1\r\n$7\r\nbeat_ms\r\n:0\r\n", "%1\r\n$7\r\nbeat_ms\r\n:-5\r\n",
                            "%1\r\n$7\r\nbeat_ms\r\n:86400001\r\n", "%1\r\n$7\r\nbeat_ms\r\n+soon\r\n"})
    EXPECT_FALSE(read_join_reply(ReplyCursor(bytes))) << bytes;
}

}  // namespace
}  // namespace locksley::daemon
