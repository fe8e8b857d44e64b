// The client against a server that follows a script: what it sends, what it sends again and what it
// does not.

#include "proto/clients/cpp/client.h"

#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/clients/cpp/batch_id.h"
#include "proto/clients/cpp/batch_stream.h"
#include "tests/support/fake_server.h"

namespace locksley::client {
namespace {

using namespace locksley::testing::fake;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = ClientError::Kind;
using std::chrono::milliseconds;

BatchOptions with_id(std::string id) {
  BatchOptions options;
  options.id = std::move(id);
  return options;
}

Client connected(const FakeServer& server, ClientOptions options = {}) {
  return Client::connect(server.address(), std::move(options)).value();
}

TEST(ClientTest, BatchIdsAre128RandomBits) {
  const std::string id = random_batch_id();
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(id, random_batch_id());
}

TEST(ClientTest, NobodyThereIsUnavailableAndNamed) {
  const Gone gone;
  const auto client = Client::connect(gone.address());
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, Kind::kUnavailable);
  EXPECT_THAT(client.error().message, HasSubstr("127.0.0.1:" + std::to_string(gone.address().port)));
}

TEST(ClientTest, AServerWithoutTlsIsToldApart) {
  FakeServer server([](const Words&) { return Answer::silence(); }, true, "-ERR what is this\r\n");
  const auto client = Client::connect({.host = "127.0.0.1", .port = server.port(), .tls = true});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, Kind::kUnavailable);
  EXPECT_THAT(client.error().message, HasSubstr("does not speak TLS"));
}

TEST(ClientTest, ThePortForHttpIsToldApart) {
  FakeServer server(
      [](const Words&) { return Answer::text("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"); },
      true);
  const auto client = Client::connect(server.address());
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, Kind::kProtocol);
  EXPECT_THAT(
      client.error().message,
      HasSubstr(":" + std::to_string(server.port()) +
                ": this port speaks HTTP, for the dashboard: clients connect to the port `listen.port`"));
}

TEST(ClientTest, FilesForTlsThatCannotBeReadAreNamed) {
  FakeServer server([](const Words&) { return Answer::silence(); }, true);
  Address address{.host = "127.0.0.1", .port = server.port(), .tls = true, .ca_file = "/nowhere/ca.pem"};
  const auto client = Client::connect(address);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, Kind::kInput);
  EXPECT_THAT(client.error().message, AllOf(HasSubstr("/nowhere/ca.pem"), HasSubstr("No such file")));
}

TEST(ClientTest, CredentialsAreSentWithHello) {
  FakeServer server(
      [](const Words& words) {
        return Answer::text(words[0] == "HELLO" ? "-WRONGPASS invalid username-password pair\r\n"
                                                : "+OK\r\n");
      },
      true);
  const auto client =
      Client::connect({.host = "127.0.0.1", .port = server.port(), .user = "alice", .password = "pw"});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, Kind::kRefused);
  EXPECT_EQ(client.error().code, "WRONGPASS");
  EXPECT_THAT(server.commands().at(0), ElementsAre("HELLO", "3", "AUTH", "alice", "pw"));
}

TEST(ClientTest, ASubmitWhoseReplyIsLostIsSentAgainWithTheSameId) {
  int submits = 0;
  FakeServer server([&](const Words& words) {
    return ++submits < 3 ? Answer::drop() : Answer::text(bulk(option_of(words, "ID")));
  });
  Client client = connected(server);
  const std::string_view jobs[] = {"a", "", "c"};
  BatchOptions options;
  options.name = "n";
  options.weight = 7;
  const auto id = client.submit("echo", options, jobs);
  ASSERT_TRUE(id) << id.error().message;
  const auto commands = server.commands();
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[0], commands[1]);
  EXPECT_EQ(commands[0], commands[2]);
  EXPECT_THAT(commands[0],
              ElementsAre("SUBMIT", "echo", "ID", *id, "NAME", "n", "WEIGHT", "7", "JOBS", "a", "", "c"));
  EXPECT_EQ(server.connections(), 3);
}

TEST(ClientTest, ARunIsNotSentAgain) {
  FakeServer server([](const Words&) { return Answer::drop(); });
  Client client = connected(server);
  const std::string_view jobs[] = {"a"};
  const auto results = client.run("echo", {}, jobs);
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().kind, Kind::kUnavailable);
  EXPECT_EQ(server.commands().size(), 1U);
}

TEST(ClientTest, PatienceEnds) {
  FakeServer server([](const Words&) { return Answer::drop(); });
  Client client = connected(server, {.patience = milliseconds(0)});
  EXPECT_EQ(client.status("x").error().kind, Kind::kUnavailable);
  EXPECT_EQ(server.commands().size(), 1U);
}

TEST(ClientTest, SilenceIsATimeoutAndTheNextCommandGetsItsOwnReply) {
  bool silent = true;
  FakeServer server([&](const Words&) {
    return std::exchange(silent, false) ? Answer::silence() : Answer::text(status_map("b", "done", 1, 1));
  });
  Client client = connected(server, {.reply_timeout = milliseconds(1000)});
  EXPECT_EQ(client.ping().error().kind, Kind::kTimeout);
  int timeouts = 1;
  auto status = client.status("b");
  // A server that is held up for so long is silent, too.
  for (; !status && status.error().kind == Kind::kTimeout && timeouts < 30; ++timeouts)
    status = client.status("b");
  EXPECT_EQ(status.value().id, "b");
  EXPECT_EQ(server.connections(), 1 + timeouts);
}

TEST(ClientTest, AnInterruptEndsTheWait) {
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  {
    FakeServer server([&](const Words&) {
      ::eventfd_write(event, 1);
      return Answer::silence();
    });
    Client client = connected(server, {.interrupt_fd = event});
    EXPECT_EQ(client.wait("b").error().kind, Kind::kInterrupted);
  }
  ::close(event);
}

TEST(ClientTest, GarbageIsAProtocolError) {
  FakeServer server([](const Words&) { return Answer::text("HTTP/1.1 200 OK\r\n\r\n"); });
  Client client = connected(server);
  EXPECT_EQ(client.ping().error().kind, Kind::kProtocol);
}

TEST(ClientTest, AReplyOfTheWrongShapeIsAProtocolError) {
  FakeServer server([](const Words&) { return Answer::text(":5\r\n"); });
  Client client = connected(server);
  EXPECT_EQ(client.status("b").error().kind, Kind::kProtocol);
  EXPECT_EQ(client.explain("b").error().kind, Kind::kProtocol);
  EXPECT_EQ(client.list("", "", 0, 10).error().kind, Kind::kProtocol);
  EXPECT_EQ(client.handlers().error().kind, Kind::kProtocol);
}

TEST(ClientTest, ErrorRepliesCarryTheirCode) {
  FakeServer server([](const Words&) { return Answer::text("-NOBATCH no batch 'x'\r\n"); });
  Client client = connected(server);
  const auto status = client.status("x");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, Kind::kRefused);
  EXPECT_EQ(status.error().code, "NOBATCH");
  EXPECT_EQ(status.error().message, "NOBATCH no batch 'x'");
}

TEST(ClientTest, WaitAsksAgainUntilTheBatchIsOver) {
  int waits = 0;
  FakeServer server([&](const Words&) {
    return Answer::text(++waits < 3 ? status_map("b", "running", 9, 4) : status_map("b", "done", 9, 9));
  });
  Client client = connected(server);
  const auto status = client.wait("b");
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->is_all_ok());
  EXPECT_EQ(server.commands().size(), 3U);
}

// A reply of results breaks off in the middle: the rows that were seen are asked for again, and not
// shown again, though they come in another order after a crash.
TEST(ClientTest, ResultsShowEachRowOnceThoughTheConnectionBreaks) {
  const std::vector<Row> first{{2, "ok", "two"}, {0, "error", "zero"}};
  const std::vector<Row> again{{0, "error", "zero"}, {2, "ok", "two"}};
  const std::vector<Row> second{{1, "ok", "one"}};
  int calls = 0;
  FakeServer server([&](const Words& words) {
    if (++calls == 1) {
      const std::string whole = results_reply(2, first);
      return Answer{whole.substr(0, whole.size() - 5), true};
    }
    return Answer::text(option_of(words, "FROM") == "0" ? results_reply(2, again) : results_reply(0, second));
  });
  Client client = connected(server);
  std::vector<std::string> seen;
  const auto read = client.for_each_result("b", [&](const ResultRow& row) {
    seen.push_back(std::to_string(row.index) + " " + std::string(row.status) + " " + std::string(row.output));
  });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(seen, ElementsAre("2 ok two", "0 error zero", "1 ok one"));
  EXPECT_EQ(calls, 3);
}

// A batch that is streamed in by a server which keeps count.
struct StreamServer {
  std::uint64_t jobs = 0;
  std::vector<std::size_t> chunks;    // of each ADDAT that added something
  int adds_lost = 0;                  // so many ADDATs are dropped unread
  int replies_lost = 0;               // so many ADDATs are taken, but the connection breaks before the reply
  std::vector<std::string> refusals;  // errors in reply to the next ADDATs
  std::vector<std::string> at_close;  // the same of CLOSE
  std::uint64_t arrive_late = 0;      // so many jobs of an earlier process arrive just before the next ADDAT
  bool exists = false;                // the batch was there before
  bool is_stream = true;
  FakeServer server{[this](const Words& words) { return answer(words); }};

  Answer answer(const Words& words) {
    if (words[0] == "OPEN" && exists) return Answer::text("-EXISTS other jobs\r\n");
    if (words[0] == "OPEN") return Answer::text(bulk(option_of(words, "ID")));
    if (words[0] == "STATUS") return Answer::text(status_map("b", "open", jobs, 0));
    if (words[0] == "CLOSE") return at_close.empty() ? Answer::text(integer(jobs)) : refuse(at_close);
    EXPECT_EQ(words[0], "ADDAT");
    return add(std::stoull(words[2]), words.size() - 3);
  }
  Answer add(std::uint64_t at, std::size_t count) {
    if (adds_lost > 0) {
      --adds_lost;
      return Answer::drop();
    }
    if (!refusals.empty()) return refuse(refusals);
    jobs += std::exchange(arrive_late, 0);
    if (!is_stream) return Answer::text("-CLOSED no jobs can be added\r\n");
    if (at != jobs && at + count > jobs) {
      return Answer::text("-OFFSET the batch has " + std::to_string(jobs) + " jobs\r\n");
    }
    if (at == jobs) {
      jobs += count;
      chunks.push_back(count);
    }
    return replies_lost-- > 0 ? Answer::drop() : Answer::text(integer(jobs));
  }
  static Answer refuse(std::vector<std::string>& with) {
    const std::string error = with.front();
    with.erase(with.begin());
    return Answer::text("-" + error + "\r\n");
  }
};

Expected<std::uint64_t> stream_jobs(StreamServer& fake, std::size_t count, const std::string& payload,
                                    milliseconds full_patience = milliseconds(0)) {
  Client client = connected(fake.server);
  auto stream = BatchStream::open(client, "echo", with_id("b"), full_patience);
  if (!stream) return std::unexpected(stream.error());
  for (std::size_t i = 0; i < count; ++i) {
    if (auto added = stream->add(payload); !added) return std::unexpected(added.error());
  }
  return stream->close();
}

TEST(BatchStreamTest, ChunksAreBoundedByCount) {
  StreamServer fake;
  EXPECT_EQ(stream_jobs(fake, 2 * BatchStream::kChunkJobs + 1, "x").value(), 2 * BatchStream::kChunkJobs + 1);
  EXPECT_THAT(fake.chunks, ElementsAre(BatchStream::kChunkJobs, BatchStream::kChunkJobs, 1));
}

TEST(BatchStreamTest, ChunksAreBoundedByBytes) {
  StreamServer fake;
  EXPECT_EQ(stream_jobs(fake, 4, std::string(BatchStream::kChunkBytes * 2 / 5, 'x')).value(), 4U);
  EXPECT_THAT(fake.chunks, ElementsAre(2, 2));
}

TEST(BatchStreamTest, AJobLargerThanAChunkIsAChunk) {
  StreamServer fake;
  EXPECT_EQ(stream_jobs(fake, 2, std::string(BatchStream::kChunkBytes * 2, 'x')).value(), 2U);
  EXPECT_THAT(fake.chunks, ElementsAre(1, 1));
}

TEST(BatchStreamTest, AChunkThatWasLostIsSentAgain) {
  StreamServer fake;
  fake.adds_lost = 2;
  EXPECT_EQ(stream_jobs(fake, 5, "x").value(), 5U);
  EXPECT_THAT(fake.chunks, ElementsAre(5));
}

TEST(BatchStreamTest, AChunkThatArrivedButWasNotAcknowledgedIsNotSentAgain) {
  StreamServer fake;
  fake.replies_lost = 1;
  EXPECT_EQ(stream_jobs(fake, 5, "x").value(), 5U);
  EXPECT_THAT(fake.chunks, ElementsAre(5));
}

TEST(BatchStreamTest, JobsThatArriveLateFromAnEarlierConnectionAreNotSentAgain) {
  StreamServer fake;
  fake.arrive_late = 2;
  EXPECT_EQ(stream_jobs(fake, 5, "x").value(), 5U);
  EXPECT_THAT(fake.chunks, ElementsAre(3));
}

TEST(BatchStreamTest, JobsThatTheDaemonHasLostAreReportedAndNothingMoreIsSent) {
  StreamServer fake;
  Client client = connected(fake.server);
  auto stream = BatchStream::open(client, "echo", with_id("b"), milliseconds(0));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream->add("x"));
  ASSERT_TRUE(stream->flush());
  fake.jobs = 3;
  ASSERT_TRUE(stream->add("x"));
  const auto sent = stream->flush();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, Kind::kProtocol);
  EXPECT_THAT(sent.error().message, HasSubstr("confirmed 5 jobs, and now it has 3"));
}

TEST(BatchStreamTest, AFullQueueIsTriedAgainForAsLongAsAllowed) {
  StreamServer patient;
  patient.refusals = {"QUEUEFULL try again", "QUEUEFULL try again"};
  EXPECT_EQ(stream_jobs(patient, 5, "x", std::chrono::minutes(1)).value(), 5U);
  StreamServer impatient;
  impatient.refusals = {"QUEUEFULL try again"};
  EXPECT_EQ(stream_jobs(impatient, 5, "x").error().code, "QUEUEFULL");
}

TEST(BatchStreamTest, ARestartAndADiskThatFailsForAMomentDoNotEndTheStream) {
  StreamServer fake;
  fake.refusals = {"DRAINING shutting down", "STORE no", "DRAINING shutting down"};
  fake.adds_lost = 1;
  fake.at_close = {"STORE no", "DRAINING shutting down"};
  EXPECT_EQ(stream_jobs(fake, 5, "x").value(), 5U);
  EXPECT_THAT(fake.chunks, ElementsAre(5));
}

TEST(BatchStreamTest, AnErrorThatStaysEndsTheStream) {
  StreamServer fake;
  fake.refusals = {"TOOBIG limits.max_payload"};
  EXPECT_EQ(stream_jobs(fake, 5, "x").error().code, "TOOBIG");
}

TEST(BatchStreamTest, AStreamGoesOnWhereItsBatchStands) {
  StreamServer fake;
  fake.exists = true;
  fake.jobs = 3;
  EXPECT_EQ(stream_jobs(fake, 5, "x").value(), 5U);
  EXPECT_THAT(fake.chunks, ElementsAre(2));
}

TEST(BatchStreamTest, AWholeStreamIsOnlyClosedAgain) {
  StreamServer fake;
  fake.exists = true;
  fake.jobs = 5;
  EXPECT_EQ(stream_jobs(fake, 5, "x").value(), 5U);
  EXPECT_TRUE(fake.chunks.empty());
}

TEST(BatchStreamTest, ABatchWithMoreJobsThanTheInputIsAnotherInputs) {
  StreamServer fake;
  fake.exists = true;
  fake.jobs = 6;
  const auto streamed = stream_jobs(fake, 5, "x");
  EXPECT_EQ(streamed.error().code, "EXISTS");
  EXPECT_THAT(streamed.error().message, HasSubstr("has 6 jobs, and the input has 5"));
}

TEST(BatchStreamTest, ABatchThatWasNotStreamedInIsNotGoneOnWith) {
  StreamServer submitted;
  submitted.exists = true;
  submitted.jobs = 3;
  submitted.is_stream = false;
  EXPECT_EQ(stream_jobs(submitted, 5, "x").error().code, "EXISTS");
  StreamServer other;
  other.exists = true;
  other.jobs = 3;
  Client client = connected(other.server);
  EXPECT_EQ(BatchStream::open(client, "another handler", with_id("b"), milliseconds(0)).error().code,
            "EXISTS");
}

}  // namespace
}  // namespace locksley::client
