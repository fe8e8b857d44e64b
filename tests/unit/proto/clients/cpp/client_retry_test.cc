// Lost replies and daemons that hang: a RETRY is executed once, and no call waits longer than it
// was told to.
#include <gmock/gmock.h>

#include <chrono>
#include <optional>

#include "proto/clients/cpp/client.h"
#include "tests/support/fake_server.h"

namespace locksley::client {
namespace {

using namespace locksley::testing::fake;
using ::testing::ElementsAre;

// A daemon that executes a RETRY only in the round that it names, and loses the reply to the first.
TEST(ClientRetryTest, ARetryWhoseReplyIsLostIsExecutedOnce) {
  std::uint64_t rounds = 4;
  int retries = 0;
  FakeServer server([&](const Words& words) {
    if (words[0] == "STATUS") {
      return Answer::text("%3\r\n" + bulk("id") + bulk("b") + bulk("state") + bulk("done") +
                          bulk("retry_rounds") + integer(rounds));
    }
    const bool is_now = words.at(3) == std::to_string(rounds);
    if (is_now) ++rounds;
    return ++retries == 1 ? Answer::drop() : Answer::text(integer(is_now ? 2 : 0));
  });
  Client client = Client::connect(server.address()).value();
  const auto lost = client.retry("b");
  ASSERT_TRUE(lost) << lost.error().message;
  EXPECT_EQ(*lost, std::nullopt) << "they are queued again, and nobody knows how many";
  EXPECT_EQ(rounds, 5U);
  EXPECT_EQ(client.retry("b").value(), 2U);
  const auto commands = server.commands();
  ASSERT_EQ(commands.size(), 6U);
  EXPECT_THAT(commands[1], ElementsAre("RETRY", "b", "ROUND", "4"));
  EXPECT_EQ(commands[2], commands[1]);
}

TEST(ClientRetryTest, WhoMayNotReadRetriesWithoutARound) {
  FakeServer server(
      [](const Words& words) { return Answer::text(words[0] == "STATUS" ? "-NOPERM no\r\n" : integer(3)); });
  Client client = Client::connect(server.address()).value();
  EXPECT_EQ(client.retry("b").value(), 3U);
  EXPECT_THAT(server.commands().back(), ElementsAre("RETRY", "b"));
}

TEST(ClientOutageTest, IsToldOnceInACallAndNotOfAConnectionThatOnlyBroke) {
  int outages = 0;
  int calls = 0;
  std::optional<FakeServer> server(std::in_place, [&calls](const Words&) {
    return ++calls == 1 ? Answer::drop() : Answer::text("+OK\r\n");
  });
  Client client =
      Client::connect(server->address(), {.patience = std::chrono::seconds(2),
                                          .on_outage = [&outages](const ClientError&) { ++outages; }})
          .value();
  EXPECT_TRUE(client.call({"PING"}));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(outages, 0);
  server.reset();
  EXPECT_FALSE(client.call({"PING"}));
  EXPECT_EQ(outages, 1);
}

TEST(ClientDeadlineTest, ADaemonThatHangsIsWaitedForNoLongerThanThePatience) {
  FakeServer server([](const Words&) { return Answer::silence(); });
  Client client = Client::connect(server.address(), {.patience = std::chrono::milliseconds(100)}).value();
  const auto began = Clock::now();
  const auto soon = [] { return deadline_in(std::chrono::milliseconds(10)); };
  const auto waited = client.wait("b", soon());
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().kind, ClientError::Kind::kTimeout) << waited.error().message;
  const auto read = client.for_each_result("b", [](const ResultRow&) {}, soon());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ClientError::Kind::kTimeout) << read.error().message;
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(30)) << "a command that does not wait has a minute";
}

}  // namespace
}  // namespace locksley::client
