// Commands about batches, as a client sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

class BatchCommandsTest : public ServerFixture {};

TEST_F(BatchCommandsTest, RunAnswersInIndexOrder) {
  start();
  Client client(port_);
  constexpr int kJobs = 5000;
  std::string command = "*" + std::to_string(kJobs + 3) + "\r\n$3\r\nRUN\r\n$4\r\necho\r\n$4\r\nJOBS\r\n";
  for (int i = 0; i < kJobs; ++i) {
    const std::string payload = "job " + std::to_string(i);
    command += "$" + std::to_string(payload.size()) + "\r\n" + payload + "\r\n";
  }
  client.send(command);
  ASSERT_EQ(client.line(), "*5000");
  for (int i = 0; i < kJobs; ++i) {
    ASSERT_EQ(client.line(), "*2");
    ASSERT_EQ(client.bulk(), "ok");
    ASSERT_EQ(client.bulk(), "job " + std::to_string(i));
  }
  EXPECT_EQ(client.ask("LIST"), "*2") << "nothing is retained";
  EXPECT_EQ(client.bulk(), "0");
  EXPECT_EQ(client.line(), "*0");
}

TEST_F(BatchCommandsTest, RunAnswersEachJobWhateverIsKept) {
  start();
  Client client(port_);
  client.send(
      "RUN fail KEEP failures JOBS why\r\nRUN echo KEEP failures JOBS x\r\nRUN fail KEEP none JOBS why\r\n");
  for (const auto& [status, output] :
       {std::pair("error", "why"), std::pair("ok", ""), std::pair("error", "")}) {
    EXPECT_EQ(client.line(), "*1");
    EXPECT_EQ(client.line(), "*2");
    EXPECT_EQ(client.bulk(), status);
    EXPECT_EQ(client.bulk(), output);
  }
}

TEST_F(BatchCommandsTest, RunDoesNotShowItsIdAsThatOfABatch) {
  start();
  Client client(port_);
  Client other(port_);
  client.send("RUN hold ID mine JOBS a\r\n");
  std::string running;
  do {
    other.send("RUNNING\r\n");
    running = other.line();
  } while (running == "*0");
  EXPECT_EQ(running, "*1");
  EXPECT_EQ(other.line(), "*7");
  EXPECT_NE(other.bulk(), "mine") << "another batch may get that id";
}

TEST_F(BatchCommandsTest, RunOfAnIdInUseIsRefused) {
  start();
  Client client(port_);
  client.send("SUBMIT echo ID b JOBS a\r\n");
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_THAT(client.ask("RUN echo ID b JOBS a"), StartsWith("-EXISTS "));
}

TEST_F(BatchCommandsTest, RunWhoseOutputsAreTooLargeIsToldSo) {
  start([](config::Config& config) { config.limits.output_buffer = config::kibibytes(1); });
  Client client(port_);
  EXPECT_THAT(client.ask("RUN echo JOBS " + std::string(2000, 'x')),
              MatchesRegex("-TOOBIG .*limits.output_buffer.*"));
  EXPECT_EQ(client.ask("PING"), "+PONG");
}

TEST_F(BatchCommandsTest, RunIsCancelledWhenItsClientGoes) {
  start();
  {
    Client client(port_);
    client.send("RUN hold JOBS a b c d\r\nPING\r\n");
    Client other(port_);
    while (on_io_thread([&] {
             kIoThread.assert_held();
             return server_->batches().active();
           }) == 0)
      EXPECT_EQ(other.ask("PING"), "+PONG");
    client.finish_sending();
    EXPECT_TRUE(client.is_closed()) << "no reply, and what is behind it is not executed";
  }
  Client other(port_);
  // hold gives its worker back only when it is told to stop.
  EXPECT_EQ(other.ask("RUN echo JOBS x"), "*1");
}

TEST_F(BatchCommandsTest, SubmitWaitResultsForget) {
  start();
  Client client(port_);
  client.send("SUBMIT echo ID b1 NAME n JOBS a b\r\n");
  EXPECT_EQ(client.bulk(), "b1");
  client.send("HELLO 3\r\n");
  EXPECT_EQ(client.line(), "%7");
  while (client.line() != "*0") continue;
  client.send("WAIT b1\r\n");
  ASSERT_EQ(client.line(), "%19");
  std::string status;
  for (int i = 0; i < 38; ++i) status += client.bulk() + " ";
  EXPECT_THAT(
      status,
      MatchesRegex("id b1 name n handler echo tenant default customer  state done weight :1 slots :0 jobs :2 "
                   "queued :0 "
                   "running :0 ok :2 failed :0 cancelled :0 retried :0 retry_rounds :0 submitted_at :[0-9]+ "
                   "started_at :[0-9]+ finished_at :[0-9]+ "));
  client.send("RESULTS b1 COUNT 1\r\n");
  EXPECT_EQ(client.line(), "*2");
  const std::string cursor = client.bulk();
  EXPECT_EQ(cursor, "2");
  EXPECT_EQ(client.line(), "*1");
  EXPECT_EQ(client.line(), "*3");
  client.line();
  EXPECT_EQ(client.bulk(), "ok");
  client.bulk();
  for (int i = 0; i < 2; ++i) {  // it can be read again
    client.send("RESULTS b1 FROM " + cursor + "\r\n");
    EXPECT_EQ(client.line(), "*2");
    EXPECT_EQ(client.bulk(), "0");
    EXPECT_EQ(client.line(), "*1");
    EXPECT_EQ(client.line(), "*3");
    client.line();
    client.bulk();
    client.bulk();
  }
  EXPECT_EQ(client.ask("FORGET b1"), ":1");
  EXPECT_EQ(client.ask("FORGET b1"), ":0");
  EXPECT_THAT(client.ask("STATUS b1"), StartsWith("-NOBATCH "));
}

TEST_F(BatchCommandsTest, SameIdAndJobsIsTheSameBatchAndOthersAreRefused) {
  start();
  Client client(port_);
  for (const char* wait : {"", "WAIT b1\r\n"}) {  // while the payloads are there, and after
    for (int i = 0; i < 2; ++i) {
      client.send("SUBMIT echo ID b1 JOBS a b\r\n");
      EXPECT_EQ(client.bulk(), "b1");
    }
    EXPECT_THAT(client.ask("SUBMIT echo ID b1 JOBS a c"), StartsWith("-EXISTS "));
    EXPECT_THAT(client.ask("SUBMIT fail ID b1 JOBS a b"), StartsWith("-EXISTS "));
    EXPECT_THAT(client.ask("SUBMIT echo ID b1 RANGE 0 2"), StartsWith("-EXISTS "));
    client.send(wait);
    if (*wait != '\0') {
      EXPECT_EQ(client.line(), "*38");
      for (int i = 0; i < 38; ++i) client.bulk();
    }
  }
}

TEST_F(BatchCommandsTest, AddatAddsWhereTheBatchHasSoManyJobsAndNothingTwice) {
  start();
  Client client(port_);
  client.send("OPEN echo ID b\r\n");
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_EQ(client.ask("ADDAT b 0 a b c"), ":3");
  EXPECT_EQ(client.ask("ADDAT b 0 a b c"), ":3") << "as after a lost reply";
  EXPECT_EQ(client.ask("ADDAT b 1 x"), ":3") << "payloads that are there are not compared";
  EXPECT_EQ(client.ask("ADDAT b 3 d e"), ":5");
  EXPECT_EQ(client.ask("ADDAT b 0 a b c"), ":5") << "as one that arrives late";
  EXPECT_EQ(client.ask("ADDAT b 4 e f"), "-OFFSET the batch has 5 jobs")
      << "some are there, and some are not";
  EXPECT_EQ(client.ask("ADDAT b 6 g"), "-OFFSET the batch has 5 jobs");
  EXPECT_EQ(client.ask("ADDAT b 18446744073709551615 g"),
            "-ERR n needs an integer from 0 to 9223372036854775807, found '18446744073709551615'");
  EXPECT_EQ(client.ask("ADDAT b 9223372036854775807 g"), "-OFFSET the batch has 5 jobs");
  EXPECT_THAT(client.ask("ADDAT b 5"), StartsWith("-ERR wrong number of arguments"));
  EXPECT_EQ(client.ask("CLOSE b"), ":5");
  EXPECT_EQ(client.ask("ADDAT b 3 d e"), ":5");
  EXPECT_THAT(client.ask("ADDAT b 5 f"), StartsWith("-CLOSED "));
  EXPECT_THAT(client.ask("ADDAT b 4 e f"), StartsWith("-CLOSED "));
  EXPECT_EQ(client.ask("WAIT b"), "*38");
  for (int i = 0; i < 38; ++i) client.bulk();
  EXPECT_EQ(client.ask("ADDAT b 3 d e"), ":5") << "once it is over";
}

TEST_F(BatchCommandsTest, AddatOfABatchThatWasSubmittedIsRefused) {
  start();
  Client client(port_);
  client.send("SUBMIT echo ID b JOBS a b c\r\n");
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_THAT(client.ask("ADDAT b 0 a"), StartsWith("-CLOSED ")) << "nobody streams it in";
  EXPECT_THAT(client.ask("ADDAT nosuch 0 a"), StartsWith("-NOBATCH "));
}

TEST_F(BatchCommandsTest, AfterARefusedAddatAllOthersOfThePipelineAreRefused) {
  start([](config::Config& config) { config.limits.max_queued_jobs = 4; });
  Client client(port_);
  client.send("OPEN hold ID b\r\n");
  EXPECT_EQ(client.bulk(), "b");
  client.send("ADDAT b 0 a b\r\nADDAT b 2 c d e\r\nADDAT b 5 f\r\nADDAT b 6 g\r\n");
  EXPECT_EQ(client.line(), ":2");
  EXPECT_THAT(client.line(), StartsWith("-QUEUEFULL "));
  EXPECT_EQ(client.line(), "-OFFSET the batch has 2 jobs");
  EXPECT_EQ(client.line(), "-OFFSET the batch has 2 jobs");
  client.ask("CANCEL b");
}

TEST_F(BatchCommandsTest, StreamedBatchRunsWhileItGrows) {
  start();
  Client client(port_);
  client.send("OPEN echo ID s\r\n");
  EXPECT_EQ(client.bulk(), "s");
  EXPECT_EQ(client.ask("ADD s a b"), ":2");
  EXPECT_EQ(client.ask("RESULTS s BLOCK 0"), "*2");
  client.bulk();
  const int rows = std::stoi(client.line().substr(1));
  for (int i = 0; i < rows; ++i) {
    client.line();
    client.line();
    client.bulk();
    client.bulk();
  }
  EXPECT_GE(rows, 1);
  EXPECT_EQ(client.ask("ADD s c"), ":3");
  EXPECT_EQ(client.ask("CLOSE s"), ":3");
  EXPECT_THAT(client.ask("ADD s d"), StartsWith("-CLOSED "));
  EXPECT_EQ(client.ask("WAIT s"), "*38");
}

TEST_F(BatchCommandsTest, WaitReturnsAtItsTimeoutWithTheStateAsItIs) {
  start();
  Client client(port_);
  client.send("SUBMIT hold ID h JOBS a\r\n");
  client.bulk();
  client.send("WAIT h 1\r\n");
  EXPECT_EQ(client.line(), "*38");
  std::string status;
  for (int i = 0; i < 38; ++i) status += client.bulk() + " ";
  EXPECT_THAT(status, testing::Not(HasSubstr("state done")));
  EXPECT_EQ(client.ask("PING"), "+PONG");
}

TEST_F(BatchCommandsTest, LimitsRefuseABatchWholeAndNameThemselves) {
  start([](config::Config& config) {
    config.limits.max_batch_jobs = 4;
    config.limits.max_queued_jobs = 5;
    config.limits.max_payload = config::Bytes{3};
  });
  Client client(port_);
  EXPECT_THAT(client.ask("SUBMIT echo RANGE 0 5"), HasSubstr("limits.max_batch_jobs"));
  EXPECT_THAT(client.ask("SUBMIT echo JOBS abcd"), MatchesRegex("-TOOBIG .*limits.max_payload.*"));
  client.send("SUBMIT hold ID h RANGE 0 4\r\n");
  client.bulk();
  EXPECT_THAT(client.ask("SUBMIT hold RANGE 0 2"), MatchesRegex("-QUEUEFULL .*limits.max_queued_jobs.*"));
  client.send("SUBMIT hold ID i RANGE 0 1\r\n");
  EXPECT_EQ(client.bulk(), "i");
  client.send("CANCEL h\r\nCANCEL i\r\n");
  EXPECT_THAT(client.line(), StartsWith(":"));
  EXPECT_THAT(client.line(), StartsWith(":"));
}

TEST_F(BatchCommandsTest, DeadlineCancelsWhatHasNotStarted) {
  start();
  Client client(port_);
  client.send("SUBMIT echo ID h DELAY 100000 DEADLINE 10 RANGE 0 100\r\nWAIT h\r\n");
  client.bulk();
  EXPECT_EQ(client.line(), "*38");
  std::string status;
  for (int i = 0; i < 38; ++i) status += client.bulk() + " ";
  EXPECT_THAT(status, HasSubstr("state cancelled"));
}

TEST_F(BatchCommandsTest, AFinishedBatchIsForgottenWhenItsTimeIsUp) {
  start([](config::Config& config) { config.store.retention = config::Duration(1000); });
  Client client(port_);
  client.send("SUBMIT echo ID b JOBS a\r\n");
  EXPECT_EQ(client.bulk(), "b");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (on_io_thread([&] {
           kIoThread.assert_held();
           return server_->batches().registry().size();
         }) != 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "still retained";
  }
}

TEST_F(BatchCommandsTest, UnknownHandlerIsAnsweredWithTheNearestName) {
  start();
  Client client(port_);
  EXPECT_THAT(client.ask("SUBMIT ecko JOBS a"), MatchesRegex("-NOHANDLER .*did you mean 'echo'.*"));
}

TEST_F(BatchCommandsTest, WhileDrainingNothingNewIsAcceptedAndTheRestIsFinished) {
  start();
  Client client(port_);
  client.send("OPEN echo ID o\r\n");
  EXPECT_EQ(client.bulk(), "o");
  std::promise<void> idle;
  asio::post(io_, [&] {
    kIoThread.assert_held();
    server_->drain([&] { idle.set_value(); });
  });
  EXPECT_EQ(idle.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_THAT(client.ask("SUBMIT echo JOBS a"), StartsWith("-DRAINING "));
  EXPECT_THAT(client.ask("RUN echo JOBS a"), StartsWith("-DRAINING "));
  EXPECT_THAT(client.ask("ADD o a"), StartsWith("-DRAINING "));
  EXPECT_EQ(client.ask("STATUS o"), "*38");
}

// ---- A batch that waits for more others than are looked up at once ----

class ManyWaitsTest : public ServerFixture {
 protected:
  static constexpr int kMany = 500;

  // AFTER of each, or AFTEROK.
  static std::string after_all(const std::string& how) {
    std::string words;
    for (int i = 0; i < kMany; ++i) words += " " + how + " b" + std::to_string(i);
    return words;
  }
  // Those for which it waits.
  static void submit_all(Client& client, const std::string& options) {
    for (int i = 0; i < kMany; ++i) {
      client.send("SUBMIT echo ID b" + std::to_string(i) + options + " JOBS x\r\n");
      ASSERT_EQ(client.bulk(), "b" + std::to_string(i));
    }
  }
};

TEST_F(ManyWaitsTest, CommandsOfOneConnectionKeepTheirOrder) {
  start();
  Client client(port_);
  submit_all(client, " DELAY 600000");
  const std::string after = after_all("AFTER");
  client.send("SUBMIT echo ID s" + after + " JOBS x\r\nOPEN echo ID o" + after +
              "\r\nADD o x\r\nCLOSE o\r\nPAUSE s\r\nCANCEL b0\r\nMULTI\r\nSUBMIT echo ID t" + after +
              " JOBS x\r\nCANCEL t\r\nEXEC\r\nFORGET t\r\n");
  EXPECT_EQ(client.bulk(), "s");
  EXPECT_EQ(client.bulk(), "o");
  EXPECT_EQ(client.line(), ":1");
  EXPECT_EQ(client.line(), ":1");
  EXPECT_EQ(client.line(), "+OK");
  EXPECT_EQ(client.line(), ":1");
  EXPECT_EQ(client.line(), "+OK");
  EXPECT_EQ(client.line(), "+QUEUED");
  EXPECT_EQ(client.line(), "+QUEUED");
  EXPECT_EQ(client.line(), "*2");
  EXPECT_EQ(client.bulk(), "t");
  EXPECT_EQ(client.line(), ":1");
  EXPECT_EQ(client.line(), ":1");
}

TEST_F(ManyWaitsTest, AnUnknownOneIsAnErrorAndNothingIsAccepted) {
  start();
  Client client(port_);
  submit_all(client, "");
  for (const std::string& command : {std::string("SUBMIT"), std::string("RUN")}) {
    EXPECT_THAT(client.ask(command + " echo ID s AFTER nosuch" + after_all("AFTER") + " JOBS x"),
                MatchesRegex("-NOBATCH .*nosuch.*"));
    EXPECT_THAT(client.ask(command + " echo ID s" + after_all("AFTER") + " AFTER nosuch JOBS x"),
                MatchesRegex("-NOBATCH .*nosuch.*"));
    EXPECT_THAT(client.ask(command + " nosuch ID s" + after_all("AFTER") + " AFTER nosuch JOBS x"),
                StartsWith("-NOHANDLER "));
  }
  EXPECT_THAT(client.ask("OPEN echo ID s" + after_all("AFTER") + " AFTER nosuch"), StartsWith("-NOBATCH "));
  EXPECT_THAT(client.ask("STATUS s"), StartsWith("-NOBATCH "));
}

TEST_F(ManyWaitsTest, ARepetitionFindsItsBatchAlthoughThoseForWhichItWaitedAreForgotten) {
  start();
  Client client(port_);
  submit_all(client, "");
  const std::string repeated = "SUBMIT echo ID s" + after_all("AFTEROK") + " JOBS x\r\n";
  client.send(repeated);
  EXPECT_EQ(client.bulk(), "s");
  // It came after `s`, so `s` has been told of each end before it.
  EXPECT_EQ(client.ask("RUN echo" + after_all("AFTEROK") + " JOBS x"), "*1");
  EXPECT_EQ(client.line(), "*2");
  EXPECT_EQ(client.bulk(), "ok");
  EXPECT_EQ(client.bulk(), "x");
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(client.ask("FORGET b" + std::to_string(i)), ":1");
  client.send(repeated);
  EXPECT_EQ(client.bulk(), "s");
  EXPECT_THAT(client.ask("SUBMIT echo ID new" + after_all("AFTEROK") + " JOBS x"), StartsWith("-NOBATCH "));
}

}  // namespace
}  // namespace locksley::daemon
