// Commands and their replies: which belongs to which, and when an upstream is silent for too long.
#include "daemon/upstream/link/command_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;
using Kind = AwaitedReply::Kind;

class CommandPipelineTest : public ::testing::Test {
 protected:
  void SetUp() override { pipeline.start(); }

  void receive(std::string_view bytes) {
    const auto space = pipeline.space();
    ASSERT_LE(bytes.size(), space.size());
    std::copy_n(bytes.data(), bytes.size(), space.data());
    pipeline.received(bytes.size());
  }
  void claim() { pipeline.send({.kind = Kind::kClaim, .blocks = true}, {"CLAIM"}); }
  void beat() { pipeline.send({.kind = Kind::kBeat}, {"BEAT"}); }
  // Looks for silence as soon as that is due.
  void wait_until_due() {
    ASSERT_TRUE(pipeline.silent_at());
    pipeline.advance(*pipeline.silent_at());
    pipeline.check_silence();
  }

  CommandPipeline pipeline{60s, 30s, 1s};
};

TEST_F(CommandPipelineTest, RepliesBelongToCommandsInTheirOrder) {
  pipeline.send({.kind = Kind::kSettle, .results = 7}, {"SETTLE", "x"});
  beat();
  EXPECT_EQ(pipeline.output().to_string(), "*2\r\n$6\r\nSETTLE\r\n$1\r\nx\r\n*1\r\n$4\r\nBEAT\r\n");
  EXPECT_EQ(pipeline.last()->kind, Kind::kBeat);
  receive("+OK\r\n*0\r\n");
  std::string_view reply;
  ASSERT_TRUE(pipeline.next(reply));
  EXPECT_EQ(reply, "+OK\r\n");
  EXPECT_EQ(pipeline.answered()->results, 7U);
  ASSERT_TRUE(pipeline.next(reply));
  EXPECT_EQ(pipeline.answered()->kind, Kind::kBeat);
  EXPECT_FALSE(pipeline.next(reply));
  EXPECT_FALSE(pipeline.answered()) << "nothing was asked";
  EXPECT_TRUE(pipeline.is_idle());
  EXPECT_EQ(pipeline.trouble(), "");
}

TEST_F(CommandPipelineTest, TheFirstTroubleIsKeptUntilTheNextConnection) {
  receive("GET / HTTP/1.1\r\n");
  std::string_view reply;
  EXPECT_FALSE(pipeline.next(reply));
  EXPECT_EQ(pipeline.trouble(), "what it sends is not RESP3");
  pipeline.fail("closed");
  pipeline.clear();
  EXPECT_EQ(pipeline.trouble(), "what it sends is not RESP3");
  EXPECT_TRUE(pipeline.is_not_resp3());
  pipeline.start();
  EXPECT_EQ(pipeline.trouble(), "");
  EXPECT_FALSE(pipeline.is_not_resp3());
}

TEST_F(CommandPipelineTest, AnUpstreamThatOwesNothingMayBeSilent) {
  EXPECT_FALSE(pipeline.silent_at());
  pipeline.advance(1h);
  pipeline.check_silence();
  EXPECT_EQ(pipeline.trouble(), "");
}

TEST_F(CommandPipelineTest, ACommandIsAnsweredInTime) {
  beat();
  EXPECT_EQ(pipeline.silent_at(), 1s + 30s);
  wait_until_due();
  EXPECT_EQ(pipeline.trouble(), "it has sent nothing for 30 s although a reply is due: it may hang");
}

TEST_F(CommandPipelineTest, AClaimMayWaitUntilAnotherCommandEndsIt) {
  claim();
  EXPECT_EQ(pipeline.silent_at(), 1s + 60s + 30s);
  pipeline.advance(11s);
  beat();
  EXPECT_EQ(pipeline.silent_at(), 11s + 30s);
}

TEST_F(CommandPipelineTest, AFullSocketThatTakesBytesIsNotSilent) {
  beat();
  pipeline.sent(1, 20s);
  EXPECT_EQ(pipeline.silent_at(), 20s + 30s);
  pipeline.sent(pipeline.output().size(), 25s);
  EXPECT_EQ(pipeline.silent_at(), 20s + 30s) << "all is sent: now a reply has to come";
}

TEST_F(CommandPipelineTest, AProcessThatWasPausedLooksOnceMore) {
  beat();
  pipeline.advance(10min);
  pipeline.check_silence();
  EXPECT_EQ(pipeline.trouble(), "");
  EXPECT_EQ(pipeline.silent_at(), 10min + 30s);
  pipeline.advance(20min);
  pipeline.check_silence();
  EXPECT_NE(pipeline.trouble(), "") << "once";
}

TEST_F(CommandPipelineTest, NothingOfAConnectionIsLeftAfterIt) {
  pipeline.leave();
  EXPECT_TRUE(pipeline.has_sent_leave());
  receive("+O");
  pipeline.clear();
  EXPECT_FALSE(pipeline.has_sent_leave());
  EXPECT_TRUE(pipeline.is_idle());
  EXPECT_TRUE(pipeline.output().empty());
  pipeline.start();
  receive("*0\r\n");
  std::string_view reply;
  EXPECT_TRUE(pipeline.next(reply));
}

}  // namespace
}  // namespace locksley::daemon
