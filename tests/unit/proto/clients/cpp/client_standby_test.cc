// The client and several daemons, of which one serves: servers that follow a script.
#include <gmock/gmock.h>

#include <algorithm>

#include "proto/clients/cpp/batch_stream.h"
#include "proto/clients/cpp/client.h"
#include "tests/support/fake_server.h"

namespace locksley::client {
namespace {

using namespace locksley::testing::fake;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = ClientError::Kind;
using std::chrono::milliseconds;

constexpr std::chrono::minutes kLong{5};

std::string stands_by_for(const FakeServer& active) {
  return "-READONLY the active daemon is " + active.address().text() + "\r\n";
}

Answer serve(const Words& words) {
  return Answer::text(words[0] == "PING" ? "+PONG\r\n" : status_map("b", "done", 1, 1));
}

TEST(ClientStandbyTest, TheFirstThatAcceptsIsTaken) {
  const Gone gone;
  FakeServer first(serve), second(serve);
  Client client = Client::connect({gone.address(), first.address(), second.address()}).value();
  EXPECT_EQ(client.status("b").value().id, "b");
  EXPECT_EQ(client.address(), first.address());
  EXPECT_EQ(second.connections(), 0);
}

TEST(ClientStandbyTest, WithoutPatienceAListThatIsGoneIsOneRoundAndAllAreNamed) {
  const Gone one, other;
  const std::vector<Address> list{one.address(), other.address()};
  const auto client = Client::connect(list, {.patience = milliseconds(0)});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, Kind::kUnavailable);
  EXPECT_THAT(client.error().message, HasSubstr("no daemon of " + text_of(list) + " serves"));
}

TEST(ClientStandbyTest, AStandbyIsLeftForTheDaemonThatItNamesAlsoWithOneAddress) {
  FakeServer active(serve);
  FakeServer standby([&](const Words&) { return Answer::text(stands_by_for(active)); });
  Client client = Client::connect(standby.address()).value();
  EXPECT_EQ(client.status("b").value().id, "b");
  EXPECT_EQ(client.address(), active.address());
  EXPECT_EQ(client.status("b").value().id, "b");
  EXPECT_EQ(standby.commands().size(), 1U) << "the second command goes to the active daemon at once";
}

TEST(ClientStandbyTest, ACommandThatIsNeverRepeatedIsSentOnToTheActiveDaemon) {
  FakeServer active([](const Words&) { return Answer::text("*1\r\n*2\r\n" + bulk("ok") + bulk("out")); });
  FakeServer standby([&](const Words&) { return Answer::text(stands_by_for(active)); });
  Client client = Client::connect(standby.address()).value();
  const std::string_view jobs[] = {"x"};
  const auto results = client.run("echo", {}, jobs);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->front().output, "out");
  EXPECT_EQ(active.commands().size(), 1U);
}

TEST(ClientStandbyTest, OneThatTakesOverIsAskedUntilItServes) {
  int asked = 0;
  FakeServer server([&](const Words& words) {
    return ++asked < 4 ? Answer::text("-LOADING the store is read\r\n") : serve(words);
  });
  Client client = Client::connect(server.address(), {.patience = kLong}).value();
  EXPECT_EQ(client.status("b").value().id, "b");
  EXPECT_EQ(server.commands().size(), 4U);
}

TEST(ClientStandbyTest, OneThatSaysSoInItsGreetingIsAskedUntilItServes) {
  int greeted = 0;
  FakeServer server(
      [&](const Words& words) {
        if (words[0] == "CLIENT") return Answer::text("+OK\r\n");
        if (words[0] != "HELLO") return serve(words);
        return Answer::text(++greeted < 3 ? "-LOADING the store is read\r\n"
                                          : "%1\r\n" + bulk("proto") + integer(3));
      },
      true);
  const Address address = server.address();
  Client client = Client::connect({address, address}, {.patience = kLong}).value();
  EXPECT_EQ(client.status("b").value().id, "b");
  const auto commands = server.commands();
  EXPECT_EQ(std::ranges::count(commands, "HELLO", [](const Words& words) { return words[0]; }), 3);
}

TEST(ClientStandbyTest, WithoutPatienceTheErrorIsTheDaemons) {
  FakeServer server([](const Words&) { return Answer::text("-LOADING the store is read\r\n"); });
  Client client = Client::connect(server.address(), {.patience = milliseconds(0)}).value();
  const auto status = client.status("b");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, "LOADING");
  EXPECT_EQ(server.commands().size(), 1U);
}

// The active daemon dies, the other one stands by, takes over and serves: in one call of the
// client.
TEST(ClientStandbyTest, ATakeoverIsOneCallThatTakesLonger) {
  auto first = std::make_unique<FakeServer>(serve);
  const std::string dead = first->address().text();
  int asked = 0;
  FakeServer second([&](const Words& words) {
    ++asked;
    if (asked < 3) return Answer::text("-READONLY the active daemon is " + dead + "\r\n");
    return asked < 5 ? Answer::text("-LOADING the store is read\r\n") : serve(words);
  });
  Client client = Client::connect({first->address(), second.address()}, {.patience = kLong}).value();
  ASSERT_TRUE(client.status("b"));
  EXPECT_EQ(client.address().text(), dead);
  const std::uint16_t port = first->port();
  first.reset();
  const Gone gone(port);
  const auto status = client.status("b");
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(client.address(), second.address());
  EXPECT_EQ(second.commands().size(), 5U);
}

TEST(ClientStandbyTest, ResultsAreReadFromTheActiveDaemon) {
  FakeServer active([](const Words&) { return Answer::text(results_reply(0, {{0, "ok", "a"}})); });
  FakeServer standby([&](const Words&) { return Answer::text(stands_by_for(active)); });
  Client client = Client::connect(standby.address()).value();
  std::vector<std::string> outputs;
  const auto read =
      client.for_each_result("b", [&](const ResultRow& row) { outputs.emplace_back(row.output); });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(outputs, ElementsAre("a"));
}

// Each of the pipeline is refused: none of the refusals is taken for a reply of the other daemon.
TEST(ClientStandbyTest, APipelineGoesToTheActiveDaemonAsAWhole) {
  FakeServer active([](const Words& words) { return Answer::text(bulk(words.at(2))); });
  FakeServer standby([&](const Words&) { return Answer::text(stands_by_for(active)); });
  Client client = Client::connect(standby.address()).value();
  const std::uint64_t indexes[] = {3, 1, 4};
  const auto replies = client.jobs("b", indexes);
  ASSERT_TRUE(replies) << replies.error().message;
  ASSERT_EQ(replies->size(), 3U);
  EXPECT_EQ(replies->at(0).text, "3");
  EXPECT_EQ(replies->at(2).text, "4");
}

TEST(ClientStandbyTest, AStreamGoesOnAtTheActiveDaemon) {
  FakeServer active([](const Words& words) {
    if (words[0] == "OPEN") return Answer::text(bulk("b"));
    return Answer::text(integer(words[0] == "ADDAT" ? words.size() - 3 : 2));
  });
  FakeServer standby([&](const Words&) { return Answer::text(stands_by_for(active)); });
  Client client = Client::connect(standby.address()).value();
  auto stream = BatchStream::open(client, "echo", {}, milliseconds(0));
  ASSERT_TRUE(stream) << stream.error().message;
  ASSERT_TRUE(stream->add("x"));
  ASSERT_TRUE(stream->add("y"));
  EXPECT_EQ(stream->close().value(), 2U);
}

TEST(ClientStandbyTest, AUserWhoMayNotReadFindsTheActiveDaemonToo) {
  FakeServer active([](const Words&) { return Answer::text("-NOPERM User u may not\r\n"); });
  FakeServer standby([&](const Words&) { return Answer::text(stands_by_for(active)); });
  Client client = Client::connect(standby.address()).value();
  ASSERT_TRUE(client.find_serving());
  EXPECT_EQ(client.address(), active.address());
}

}  // namespace
}  // namespace locksley::client
