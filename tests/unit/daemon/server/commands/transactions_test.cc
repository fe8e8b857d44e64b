// MULTI, EXEC, DISCARD, as a client sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class TransactionsTest : public ServerFixture {
 protected:
  static std::vector<std::string> ask(Client& client, const std::vector<std::string>& commands) {
    std::vector<std::string> replies;
    for (const std::string& command : commands) replies.push_back(client.ask(command));
    return replies;
  }
  std::uint64_t client_bytes() {
    return on_io_thread([this] {
      kIoThread.assert_held();
      return server_->batches().registry().tenants().account_of_all().used(Resource::kClientBytes);
    });
  }
};

TEST_F(TransactionsTest, CommandsAreQueuedAndRunAtExec) {
  start();
  Client client(port_);
  Client other(port_);
  EXPECT_THAT(ask(client, {"MULTI", "SUBMIT echo ID b JOBS a", "PING", "CLIENT GETNAME"}),
              ElementsAre("+OK", "+QUEUED", "+QUEUED", "+QUEUED"));
  EXPECT_THAT(other.ask("STATUS b"), StartsWith("-NOBATCH"));
  EXPECT_EQ(client.ask("EXEC"), "*3");
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_EQ(client.line(), "$-1");
  EXPECT_EQ(other.ask("STATUS b"), "*38");
  EXPECT_EQ(client.ask("EXEC"), "-ERR EXEC without MULTI");
  EXPECT_EQ(client.ask("DISCARD"), "-ERR DISCARD without MULTI");
  EXPECT_EQ(client.ask("UNWATCH"), "+OK");
  EXPECT_THAT(client.ask("WATCH a"), StartsWith("-ERR WATCH is not supported: "));
  EXPECT_THAT(ask(client, {"MULTI", "EXEC"}), ElementsAre("+OK", "*0"));
}

TEST_F(TransactionsTest, AnErrorWhileItRunsIsAnElementAndTheOthersRun) {
  start();
  Client client(port_);
  EXPECT_THAT(ask(client, {"MULTI", "SUBMIT nosuch JOBS a", "STATUS nosuch", "ECHO x", "EXEC"}),
              ElementsAre("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3"));
  EXPECT_THAT(client.line(), StartsWith("-NOHANDLER "));
  EXPECT_THAT(client.line(), StartsWith("-NOBATCH "));
  EXPECT_EQ(client.bulk(), "x");
}

TEST_F(TransactionsTest, ACommandThatIsWrongOrNotAllowedSpoilsTheWhole) {
  start();
  Client client(port_);
  for (const char* wrong : {"NOSUCH", "ECHO", "CLIENT NOSUCH", "CLIENT KILL", "MULTI", "WATCH a",
                            "RUN echo JOBS a", "SUBSCRIBE a", "UNSUBSCRIBE a", "PSUBSCRIBE a", "PUNSUBSCRIBE",
                            "HELLO 3", "AUTH a b", "CLIENT REPLY OFF"}) {
    EXPECT_THAT(ask(client, {"MULTI", "SUBMIT echo ID spoiled JOBS a", wrong, "PING", "EXEC"}),
                ElementsAre("+OK", "+QUEUED", StartsWith("-ERR "), "+QUEUED",
                            "-EXECABORT Transaction discarded because of previous errors."))
        << wrong;
  }
  EXPECT_THAT(client.ask("STATUS spoiled"), StartsWith("-NOBATCH"));
  EXPECT_THAT(ask(client, {"MULTI", "PING", "EXEC"}), ElementsAre("+OK", "+QUEUED", "*1"));
}

TEST_F(TransactionsTest, AWrongOptionSpoilsTheWhole) {
  start();
  Client client(port_);
  for (const char* wrong :
       {"SUBMIT echo NOSUCH 1 JOBS a", "SUBMIT echo WEIGHT 0 JOBS a", "SUBMIT echo ID b",
        "OPEN echo KEEP some", "ADDAT spoiled x a", "RETRY spoiled ROUND x", "WEIGHT spoiled 0",
        "WAIT spoiled -1", "RESULTS spoiled FROM x", "LIST COUNT x", "JOB spoiled x", "LOG spoiled 0 BLOCK x",
        "LOG spoiled x", "RUNNING spoiled COUNT x"}) {
    EXPECT_THAT(ask(client, {"MULTI", "SUBMIT echo ID spoiled JOBS a", wrong, "EXEC"}),
                ElementsAre("+OK", "+QUEUED", StartsWith("-ERR "),
                            "-EXECABORT Transaction discarded because of previous errors."))
        << wrong;
  }
  EXPECT_THAT(client.ask("STATUS spoiled"), StartsWith("-NOBATCH"));
}

TEST_F(TransactionsTest, DiscardResetQuitAndTheEndOfTheConnectionDropTheQueue) {
  start();
  Client client(port_);
  constexpr std::uint64_t kBytes = 20'000;
  const std::string submit = "SUBMIT echo ID dropped JOBS " + std::string(kBytes, 'x');
  EXPECT_THAT(ask(client, {"MULTI", submit, "DISCARD", "EXEC"}),
              ElementsAre("+OK", "+QUEUED", "+OK", "-ERR EXEC without MULTI"));
  EXPECT_THAT(ask(client, {"MULTI", submit, "RESET", "EXEC"}),
              ElementsAre("+OK", "+QUEUED", "+RESET", "-ERR EXEC without MULTI"));
  EXPECT_THAT(ask(client, {"MULTI", submit, "QUIT"}), ElementsAre("+OK", "+QUEUED", "+OK"));
  EXPECT_TRUE(client.is_closed());
  {
    Client broken(port_);
    EXPECT_THAT(ask(broken, {"MULTI", submit}), ElementsAre("+OK", "+QUEUED"));
    EXPECT_GT(client_bytes(), kBytes);
    broken.finish_sending();
    EXPECT_TRUE(broken.is_closed());
  }
  Client other(port_);
  EXPECT_THAT(other.ask("STATUS dropped"), StartsWith("-NOBATCH"));
  EXPECT_LT(client_bytes(), kBytes);
}

TEST_F(TransactionsTest, NoCommandWaits) {
  start();
  Client client(port_);
  EXPECT_THAT(ask(client, {"MULTI", "OPEN echo ID open", "WAIT open", "RESULTS open BLOCK 0", "EXEC"}),
              ElementsAre("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3"));
  EXPECT_EQ(client.bulk(), "open");
  EXPECT_EQ(client.line(), "*38");
  for (int i = 0; i < 38; ++i) client.bulk();
  EXPECT_EQ(client.line(), "*2");
  EXPECT_EQ(client.bulk(), "1");
  EXPECT_EQ(client.line(), "*0");
}

TEST_F(TransactionsTest, CommandsAfterExecComeAfterAllOfIt) {
  start();
  Client client(port_);
  constexpr int kCommands = 20'000;  // more than one turn
  std::string commands = "MULTI\r\n";
  std::string replies = "+OK\r\n";
  for (int i = 0; i < kCommands; ++i) {
    commands += "PING\r\n";
    replies += "+QUEUED\r\n";
  }
  commands += "EXEC\r\nECHO x\r\n";
  replies += "*" + std::to_string(kCommands) + "\r\n";
  for (int i = 0; i < kCommands; ++i) replies += "+PONG\r\n";
  replies += "$1\r\nx\r\n";
  client.send(commands);
  EXPECT_EQ(client.read(replies.size()), replies);
}

TEST_F(TransactionsTest, EventsAreNotInsideTheReply) {
  start();
  Client client(port_);
  client.send("HELLO 3\r\n");
  while (client.line() != "*0") continue;
  EXPECT_EQ(client.ask("SUBSCRIBE batches"), ">3");
  client.bulk();
  client.bulk();
  client.line();
  EXPECT_THAT(ask(client, {"MULTI", "OPEN echo ID told", "PING"}), ElementsAre("+OK", "+QUEUED", "+QUEUED"));
  EXPECT_EQ(client.ask("EXEC"), ">3") << "the event that the batch was accepted";
  EXPECT_EQ(client.bulk(), "message");
  EXPECT_EQ(client.bulk(), "batches");
  EXPECT_THAT(client.bulk(), HasSubstr("accepted"));
  EXPECT_EQ(client.line(), "*2");
  EXPECT_EQ(client.bulk(), "told");
  EXPECT_EQ(client.line(), "+PONG");
}

TEST_F(TransactionsTest, ReplySkipAndOffAreAboutTheWholeExec) {
  start();
  Client client(port_);
  client.send("MULTI\r\nPING\r\nPING\r\nEXEC\r\n");
  EXPECT_EQ(client.read(36), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n+P");
  client.read(5);
  client.send("CLIENT REPLY SKIP\r\nMULTI\r\nPING\r\nEXEC\r\nECHO after-skip\r\n");
  EXPECT_EQ(client.line(), "+QUEUED");
  EXPECT_EQ(client.line(), "*1");
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_EQ(client.bulk(), "after-skip");
  client.send("CLIENT REPLY OFF\r\nMULTI\r\nPING\r\nEXEC\r\nCLIENT REPLY ON\r\n");
  EXPECT_EQ(client.line(), "+OK") << "of REPLY ON";
}

TEST_F(TransactionsTest, TheQueueIsBoundedAndTheErrorNamesTheLimit) {
  start([](config::Config& config) { config.limits.client_memory.count = 100'000; });
  Client client(port_);
  EXPECT_EQ(client.ask("MULTI"), "+OK");
  const std::string command = "ECHO " + std::string(20'000, 'x');
  std::string reply;
  int queued = 0;
  while ((reply = client.ask(command)) == "+QUEUED") ++queued;
  EXPECT_GT(queued, 2);
  EXPECT_THAT(reply, AllOf(StartsWith("-TOOBIG "), HasSubstr("limits.client_memory is 100000")));
  EXPECT_THAT(client.ask("EXEC"), StartsWith("-EXECABORT "));
  EXPECT_EQ(client.ask("PING"), "+PONG");
}

TEST_F(TransactionsTest, RepliesHaveHalfOfTheOutputBufferAndThenNothingMoreRuns) {
  start([](config::Config& config) { config.limits.output_buffer = config::kibibytes(64); });
  Client client(port_);
  const std::string echo = "ECHO " + std::string(20'000, 'x');
  EXPECT_THAT(ask(client, {"MULTI", echo, echo, "SUBMIT echo ID late JOBS a", "EXEC"}),
              ElementsAre("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3"));
  client.bulk();
  client.bulk();
  EXPECT_THAT(client.line(),
              AllOf(StartsWith("-TOOBIG the command was not executed: "), HasSubstr("limits.output_buffer")));
  EXPECT_THAT(client.ask("STATUS late"), StartsWith("-NOBATCH"));
}

}  // namespace
}  // namespace locksley::daemon
