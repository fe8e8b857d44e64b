// Connections: what a client sends and what it gets, and what it costs a client to misbehave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SessionTest : public ServerFixture {};

TEST_F(SessionTest, PipelinedCommandsAreAnsweredInOrder) {
  start();
  Client client(port_);
  client.send("PING\r\n*2\r\n$4\r\nECHO\r\n$3\r\na\rb\r\nNOSUCH x\r\nPING\r\n");
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_EQ(client.bulk(), "a\rb");
  EXPECT_EQ(client.line(), "-ERR unknown command 'NOSUCH', with args beginning with: 'x' ");
  EXPECT_EQ(client.line(), "+PONG");
}

TEST_F(SessionTest, TenThousandCommandsInOneWriteAreAllAnswered) {
  start();
  Client client(port_);
  std::string commands;
  std::string replies;
  for (int i = 0; i < 10'000; ++i) {
    commands += "PING\r\n";
    replies += "+PONG\r\n";
  }
  client.send(commands);
  EXPECT_EQ(client.read(replies.size()), replies);
}

// After a small command the next is read by the wait for it, up to 256 bytes: of every size around
// that each byte arrives, whether it comes in one part or in several, and whether more follows, or
// the end.
TEST_F(SessionTest, CommandsOfEverySizeAroundWhatAWaitReadsAreAnsweredWhole) {
  start();
  for (std::size_t size = 225; size < 270; ++size) {
    Client client(port_);
    const std::string word(size, static_cast<char>('a' + size % 26));
    const std::string number = std::to_string(size);
    const std::string command = "*2\r\n$4\r\nECHO\r\n$" + number + "\r\n" + word + "\r\n";
    const std::string reply = "$" + number + "\r\n" + word + "\r\n";
    for (int i = 0; i < 3; ++i) {
      client.send("PING\r\n");  // small: the next wait reads
      EXPECT_EQ(client.line(), "+PONG");
      client.send(command);
      EXPECT_EQ(client.read(reply.size()), reply);
      client.send("PING\r\n");
      EXPECT_EQ(client.line(), "+PONG");
      client.send(command + command + command);
      EXPECT_EQ(client.read(3 * reply.size()), reply + reply + reply);
      client.send(command.substr(0, size / 2));
      client.send(command.substr(size / 2) + "PING\r\n");
      EXPECT_EQ(client.read(reply.size()), reply);
      EXPECT_EQ(client.line(), "+PONG");
    }
    client.send(command);
    client.finish_sending();
    EXPECT_EQ(client.read(reply.size()), reply);
    EXPECT_TRUE(client.is_closed());
  }
}

TEST_F(SessionTest, RepliesBeforeAProtocolErrorAreDeliveredAndNothingAfterItIsExecuted) {
  start();
  Client client(port_);
  client.send("PING\r\n*1\r\nfoo\r\nPING\r\n");
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_EQ(client.line(), "-ERR Protocol error: expected '$', got 'f'");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(SessionTest, HttpIsClosedWithoutAReply) {
  start();
  Client client(port_);
  client.send("POST / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(SessionTest, CommandsBeforeAHalfCloseAreAnswered) {
  start();
  Client client(port_);
  client.send("PING\r\nPING\r\n");
  client.finish_sending();
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(SessionTest, SubscribersHearOfABatchFromAcceptanceToEnd) {
  start();
  Client listener(port_);
  listener.send("SUBSCRIBE batches\r\n");
  EXPECT_EQ(listener.line(), "*3");
  EXPECT_EQ(listener.bulk(), "subscribe");
  EXPECT_EQ(listener.bulk(), "batches");
  EXPECT_EQ(listener.line(), ":1");
  EXPECT_THAT(listener.ask("STATUS x"), StartsWith("-ERR Can't execute 'status'"));
  Client client(port_);
  client.send("SUBMIT echo ID e JOBS a\r\n");
  EXPECT_EQ(client.bulk(), "e");
  std::vector<std::string> events;
  while (events.empty() || events.back() != "done") {
    ASSERT_EQ(listener.line(), "*3");
    EXPECT_EQ(listener.bulk(), "message");
    EXPECT_EQ(listener.bulk(), "batches");
    const std::string message = listener.bulk();
    const std::size_t at = message.find("\"event\":\"") + 9;
    std::string event = message.substr(at, message.find('"', at) - at);
    // Of a batch that takes longer than that, as on a busy machine, there is one four times a
    // second.
    if (event == "progress" && events.size() == 2) continue;
    events.push_back(std::move(event));
  }
  EXPECT_EQ(events, (std::vector<std::string>{"accepted", "started", "done"}));
}

TEST_F(SessionTest, Resp3SubscriberMayAskMeanwhile) {
  start();
  Client client(port_);
  client.send("HELLO 3\r\nPSUBSCRIBE b*\r\nPING\r\n");
  while (client.line() != "*0") continue;
  EXPECT_EQ(client.line(), ">3");
  EXPECT_EQ(client.bulk(), "psubscribe");
  EXPECT_EQ(client.bulk(), "b*");
  EXPECT_EQ(client.line(), ":1");
  EXPECT_EQ(client.line(), "+PONG");
}

TEST_F(SessionTest, ReplySkipAndOffSuppressReplies) {
  start();
  Client client(port_);
  client.send(
      "CLIENT REPLY SKIP\r\nPING\r\nECHO 1\r\nCLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\nECHO 2\r\n");
  EXPECT_EQ(client.bulk(), "1");
  EXPECT_EQ(client.line(), "+OK");
  EXPECT_EQ(client.bulk(), "2");
}

TEST_F(SessionTest, OneClientMoreThanAllowedIsTurnedAway) {
  start([](config::Config& config) { config.limits.max_clients = 2; });
  Client one(port_);
  Client two(port_);
  EXPECT_EQ(one.ask("PING"), "+PONG");
  EXPECT_EQ(two.ask("PING"), "+PONG");
  Client three(port_);
  EXPECT_EQ(three.line(), "-ERR max number of clients reached");
  EXPECT_TRUE(three.is_closed());
  EXPECT_EQ(one.ask("PING"), "+PONG");
}

TEST_F(SessionTest, ASilentClientIsClosedAndABlockedOneIsNot) {
  start();
  Client blocked(port_);
  blocked.send("SUBMIT hold ID h JOBS a\r\nWAIT h 300\r\n");
  EXPECT_EQ(blocked.bulk(), "h");
  Client silent(port_);
  EXPECT_EQ(silent.ask("PING"), "+PONG");
  // Not from the start: a connection could be idle for so long before its client has sent anything.
  on_io_thread([&] {
    kIoThread.assert_held();
    config::Config config = server_->config();
    config.limits.idle_timeout = std::chrono::milliseconds(50);
    server_->reconfigure(config, {});
    return true;
  });
  EXPECT_TRUE(silent.is_closed());
  EXPECT_EQ(blocked.line(), "*38");
}

TEST_F(SessionTest, AClientThatNeverReadsIsDropped) {
  start([](config::Config& config) { config.limits.output_buffer = config::mebibytes(1); });
  Client client(port_);
  const std::string payload(100'000, 'x');
  std::string command = "*2\r\n$4\r\nECHO\r\n$100000\r\n" + payload + "\r\n";
  std::thread sender([&] {
    for (int i = 0; i < 400; ++i) {
      std::string_view left = command;
      while (!left.empty()) {
        const ssize_t sent = client.try_send(left);
        if (sent <= 0) return;
        left.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
  });
  sender.join();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (server_->state().stats().slow_clients_dropped.get() == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "not dropped";
    std::this_thread::yield();
  }
}

// As one that does not wait for a batch: what it goes on sending takes memory of others.
TEST_F(SessionTest, AClientThatSendsTooMuchWhileItWaitsIsClosedAtOnce) {
  start([](config::Config& config) { config.limits.max_queued_bytes.count = 40 * 1024; });
  Client client(port_);
  client.send("SUBMIT hold ID h JOBS a\r\nWAIT h\r\n");
  EXPECT_EQ(client.bulk(), "h");
  client.send("*2\r\n$4\r\nECHO\r\n$300000\r\n" + std::string(100'000, 'x'));
  EXPECT_THAT(client.line(), StartsWith("-TOOBIG unfinished commands of all clients together"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (server_->state().stats().connections.get() != 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "not closed";
    std::this_thread::yield();
  }
}

TEST_F(SessionTest, KilledClientIsClosed) {
  start();
  Client victim(port_);
  const std::string id = victim.ask("CLIENT ID").substr(1);
  Client client(port_);
  EXPECT_EQ(client.ask("CLIENT KILL ID " + id), ":1");
  EXPECT_TRUE(victim.is_closed());
  EXPECT_EQ(client.ask("CLIENT KILL ID 9999"), ":0");
}

TEST_F(SessionTest, ClientListHasTheClientsThatAreAskedFor) {
  start();
  Client first(port_);
  Client second(port_);
  Client subscriber(port_);
  EXPECT_EQ(first.ask("CLIENT ID"), ":1");
  EXPECT_EQ(second.ask("CLIENT ID"), ":2");
  EXPECT_EQ(subscriber.ask("CLIENT ID"), ":3");
  subscriber.send("SUBSCRIBE batches\r\n");
  EXPECT_EQ(subscriber.line(), "*3");
  // The ids of the lines.
  const auto listed = [&](const std::string& filter) {
    first.send("CLIENT LIST " + filter + "\r\n");
    std::string ids;
    std::istringstream lines(first.bulk());
    for (std::string line; std::getline(lines, line);) ids += line.substr(0, line.find(' ')) + " ";
    return ids;
  };
  EXPECT_EQ(listed(""), "id=1 id=2 id=3 ");
  EXPECT_EQ(listed("ID 2"), "id=2 ");
  EXPECT_EQ(listed("id 3 1 77"), "id=1 id=3 ");
  EXPECT_EQ(listed("TYPE normal"), "id=1 id=2 ");
  EXPECT_EQ(listed("type PUBSUB"), "id=3 ");
  EXPECT_EQ(listed("TYPE replica"), "");
  EXPECT_EQ(listed("TYPE normal ID 2 3"), "id=2 ");
  for (const char* wrong : {"ID", "ID x", "ID 0", "TYPE", "TYPE wrong", "NAME x", "ID 1 TYPE normal"}) {
    EXPECT_THAT(first.ask(std::string("CLIENT LIST ") + wrong), StartsWith("-ERR ")) << wrong;
  }
}

TEST_F(SessionTest, InfoTellsStockClientsThatThisIsAReadyMaster) {
  start();
  Client client(port_);
  client.send("INFO\r\n");
  const std::string info = client.bulk();
  for (const char* line :
       {"redis_version:7.4.0\r\n", "role:master\r\n", "loading:0\r\n", "connected_clients:1\r\n"}) {
    EXPECT_THAT(info, HasSubstr(line));
  }
  client.send("INFO replication\r\n");
  EXPECT_EQ(client.bulk(), "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
}

TEST_F(SessionTest, InfoHasLanesForWhoAsksForThem) {
  start();
  Client client(port_);
  client.send("INFO lanes\r\n");
  EXPECT_EQ(client.bulk(), "# Lanes\r\nlane_cpu:slots=2,running=0,queued=0,batches=0\r\n");
  client.send("INFO\r\n");
  EXPECT_THAT(client.bulk(), Not(HasSubstr("lane_")));
  client.send("INFO default\r\n");
  EXPECT_THAT(client.bulk(), Not(HasSubstr("lane_")));
  client.send("INFO everything\r\n");
  EXPECT_THAT(client.bulk(), HasSubstr("lane_cpu:"));
}

TEST_F(SessionTest, InfoSaysWhoAsksAndWhatThatOneMayDo) {
  start();
  Client client(port_);
  client.send("INFO locksley\r\n");
  const std::string info = client.bulk();
  for (const char* line : {"user:default\r\n", "groups:submit,read,control,admin,work\r\n",
                           "ended_jobs:0\r\n", "max_queued_jobs:100000000\r\n"}) {
    EXPECT_THAT(info, HasSubstr(line));
  }
  client.send("INFO persistence\r\n");
  EXPECT_EQ(client.bulk(), "# Persistence\r\nloading:0\r\nstore:memory\r\n");
}

}  // namespace
}  // namespace locksley::daemon
