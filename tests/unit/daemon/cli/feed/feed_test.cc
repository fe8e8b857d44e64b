// Payloads in: the parts of `submit` and `run` that read payloads and send them.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "daemon/cli/context/event.h"
#include "daemon/cli/feed/feed.h"
#include "daemon/cli/feed/payload_source.h"
#include "tests/support/fake_server.h"
#include "tests/support/own_path.h"
#include "tests/unit/daemon/cli/pipe.h"

namespace locksley::cli {
namespace {

using namespace locksley::testing::fake;
using ::testing::ElementsAre;
using Outcome = RecordReader::Outcome;
using std::chrono::milliseconds;

constexpr milliseconds kLong = std::chrono::minutes(1);

std::vector<std::string> all_records(std::string_view input, char separator) {
  Pipe pipe;
  Event stop;
  pipe.write(input);
  pipe.close_writer();
  RecordReader reader(pipe.ends[0], separator, stop.fd());
  std::vector<std::string> records;
  std::string record;
  while (reader.next(record, kLong).value() == Outcome::kRecord) records.push_back(record);
  return records;
}

TEST(CliInputTest, RecordsEndAtTheSeparatorAndTheLastMayLackIt) {
  EXPECT_THAT(all_records("a\n\nb", '\n'), ElementsAre("a", "", "b"));
  EXPECT_THAT(all_records("a\nb\n", '\n'), ElementsAre("a", "b"));
  EXPECT_THAT(all_records(std::string_view("a\nb\0c\0", 6), '\0'), ElementsAre("a\nb", "c"));
  EXPECT_TRUE(all_records("", '\n').empty());
}

TEST(CliInputTest, ARecordInPiecesIsOneAndAPauseIsTold) {
  Pipe pipe;
  Event stop;
  RecordReader reader(pipe.ends[0], '\n', stop.fd());
  std::string record;
  pipe.write("hal");
  EXPECT_EQ(reader.next(record, milliseconds(0)).value(), Outcome::kIdle);
  pipe.write("f\nrest");
  EXPECT_EQ(reader.next(record, kLong).value(), Outcome::kRecord);
  EXPECT_EQ(record, "half");
  stop.raise();
  EXPECT_EQ(reader.next(record, kLong).error().kind, client::ClientError::Kind::kInterrupted);
}

TEST(CliInputTest, FilesArePayloadsAndAMissingOneIsNamed) {
  const testing::OwnPath own("payload");
  const std::string& name = own.text();
  const std::string content(100'000, 'x');
  std::ofstream(name) << content;
  Event stop;
  const PayloadOptions options{.arguments = {name, name + ".none"}, .files = true};
  PayloadSource source(options, -1, stop.fd());
  std::string payload;
  EXPECT_EQ(source.next(payload, kLong).value(), Outcome::kRecord);
  EXPECT_EQ(payload, content);
  EXPECT_EQ(source.file(), name);
  const auto missing = source.next(payload, kLong);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, ::testing::HasSubstr(name + ".none: No such file"));
}

TEST(CliInputTest, AnEmptyNameOfAFileIsSaidWithItsPlace) {
  const testing::OwnPath own("payload");
  std::ofstream(own.text()) << "x";
  Event stop;
  std::string payload;
  for (const auto& [separator, word] : {std::pair('\n', "line"), std::pair('\0', "record")}) {
    Pipe input;
    const std::string names = own.text() + separator + separator;
    input.write(names);
    input.close_writer();
    const PayloadOptions options{.nul_separated = separator == '\0', .files = true};
    PayloadSource source(options, input.ends[0], stop.fd());
    EXPECT_EQ(source.next(payload, kLong).value(), Outcome::kRecord);
    EXPECT_EQ(source.next(payload, kLong).error().message,
              std::string(word) + " 2 is empty: it names no file");
  }
  const PayloadOptions argument{.arguments = {""}, .files = true};
  PayloadSource source(argument, -1, stop.fd());
  EXPECT_EQ(source.next(payload, kLong).error().message, "argument 1 is empty: it names no file");
}

TEST(CliInputTest, AFileThatBlocksDoesNotHoldUpAnInterrupt) {
  const testing::OwnPath own("fifo");
  const std::string& name = own.text();
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  Event stop;
  const PayloadOptions options{.arguments = {name, name}, .files = true};
  PayloadSource source(options, -1, stop.fd());
  std::string payload;
  std::jthread writer([&name] { std::ofstream(name) << "content"; });  // opens it once it is being read
  EXPECT_EQ(source.next(payload, kLong).value(), Outcome::kRecord);
  EXPECT_EQ(payload, "content");
  stop.raise();
  const auto stopped = source.next(payload, kLong);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, client::ClientError::Kind::kInterrupted);
}

SubmitArguments arguments_for(std::string handler, PayloadOptions payloads) {
  SubmitArguments arguments{
      .handler = std::move(handler), .has_new_id = true, .payloads = std::move(payloads)};
  arguments.batch.id = "b";
  return arguments;
}

// A server that takes whatever is submitted or streamed.
struct TakingServer {
  std::vector<std::string> jobs;
  bool closed = false;
  std::string answer_to_status = "-NOBATCH no batch 'b'\r\n";
  FakeServer server{[this](const Words& words) { return answer(words); }};

  Answer answer(const Words& words) {
    if (words[0] == "OPEN") return Answer::text(bulk(option_of(words, "ID")));
    if (words[0] == "STATUS") return Answer::text(answer_to_status);
    if (words[0] == "CLOSE") {
      closed = true;
      return Answer::text(integer(jobs.size()));
    }
    const bool is_added = words[0] == "ADDAT";
    if (is_added) {
      EXPECT_EQ(words[2], std::to_string(jobs.size()));
    }
    const auto first = is_added ? words.begin() + 3 : std::ranges::find(words, "JOBS") + 1;
    jobs.insert(jobs.end(), first, words.end());
    return Answer::text(is_added ? integer(jobs.size()) : bulk(option_of(words, "ID")));
  }
};

std::uint64_t feed(TakingServer& fake, const SubmitArguments& arguments, int input_fd) {
  auto client = client::Client::connect(fake.server.address()).value();
  Event stop;
  std::uint64_t told = 0;
  Feed feed(client, arguments, input_fd, stop.fd(), {.on_jobs = [&](std::uint64_t jobs) { told = jobs; }});
  const auto fed = feed.run();
  EXPECT_TRUE(fed) << fed.error().message;
  return told;
}

TEST(CliFeedTest, AShortInputIsOneSubmit) {
  TakingServer fake;
  EXPECT_EQ(feed(fake, arguments_for("echo", {.arguments = {"x", "y"}}), -1), 2U);
  EXPECT_THAT(fake.jobs, ElementsAre("x", "y"));
  EXPECT_EQ(fake.server.commands().size(), 1U);
}

TEST(CliFeedTest, ABatchThatWasThereIsKnown) {
  for (const auto& [status, was_there] : {std::pair<std::string, bool>{"-NOBATCH no batch 'b'\r\n", false},
                                          {"-NOPERM User a has no permissions\r\n", false},
                                          {status_map("b", "done", 1, 1), true}}) {
    TakingServer fake;
    fake.answer_to_status = status;
    auto client = client::Client::connect(fake.server.address()).value();
    Event stop;
    SubmitArguments arguments = arguments_for("echo", {.arguments = {"x"}});
    arguments.has_new_id = false;
    Feed feed(client, arguments, -1, stop.fd(), {.on_jobs = [](std::uint64_t) {}});
    EXPECT_TRUE(feed.run());
    EXPECT_EQ(feed.was_there(), was_there) << status;
    EXPECT_THAT(fake.server.commands().at(0), ElementsAre("STATUS", "b"));
  }
}

TEST(CliFeedTest, InputThatPausesFindsABatchThatOneSubmitMade) {
  Pipe input;
  input.write("x\n");
  bool has_paused = false;
  std::vector<std::string> jobs;
  FakeServer server([&](const Words& words) {
    if (words[0] == "STATUS" && !std::exchange(has_paused, true)) {
      input.write("y\n");
      input.close_writer();
    }
    if (words[0] == "STATUS") return Answer::text(status_map("b", "done", 2, 2));
    if (words[0] != "SUBMIT") return Answer::text("-EXISTS batch b\r\n");
    jobs.assign(std::ranges::find(words, "JOBS") + 1, words.end());
    return Answer::text(bulk("b"));
  });
  auto client = client::Client::connect(server.address()).value();
  Event stop;
  SubmitArguments arguments = arguments_for("echo", {});
  arguments.has_new_id = false;
  Feed feed(client, arguments, input.ends[0], stop.fd(), {.on_jobs = [](std::uint64_t) {}});
  const auto fed = feed.run();
  EXPECT_TRUE(fed) << fed.error().message;
  EXPECT_THAT(jobs, ElementsAre("x", "y"));
  EXPECT_TRUE(feed.was_there());
}

TEST(CliFeedTest, FilesAreNamedInTheirOrder) {
  const testing::OwnPath own("named");
  const std::string& name = own.text();
  std::ofstream(name) << "content";
  TakingServer fake;
  auto client = client::Client::connect(fake.server.address()).value();
  Event stop;
  const SubmitArguments arguments = arguments_for("echo", {.arguments = {name, "/dev/null"}, .files = true});
  std::vector<std::string> names;
  ASSERT_TRUE(Feed(client, arguments, -1, stop.fd(),
                   {.on_jobs = [](std::uint64_t) {},
                    .on_file = [&](const std::string& file) { names.push_back(file); }})
                  .run());
  EXPECT_THAT(names, ElementsAre(name, "/dev/null"));
  EXPECT_THAT(fake.jobs, ElementsAre("content", ""));
}

TEST(CliFeedTest, ALongInputIsStreamedInOrder) {
  const testing::OwnPath own("lines");
  const std::string& name = own.text();
  std::vector<std::string> expected;
  {
    std::ofstream out(name);
    for (int i = 0; i < 25'000; ++i) {
      expected.push_back(std::to_string(i));
      out << i << '\n';
    }
  }
  TakingServer fake;
  const int input = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(feed(fake, arguments_for("echo", {}), input), 25'000U);
  ::close(input);
  EXPECT_EQ(fake.jobs, expected);
  EXPECT_TRUE(fake.closed);
}

TEST(CliFeedTest, APayloadOfARangeIsMadeAsTheDaemonMakesIt) {
  const PayloadOptions plain{.range = std::pair(INT64_MIN, INT64_MAX)};
  EXPECT_EQ(range_payload(plain, 0), "-9223372036854775808");
  EXPECT_EQ(range_payload(plain, UINT64_MAX - 1), "9223372036854775806");
  EXPECT_EQ(range_payload({.arguments = {"{}{x{}}"}, .range = std::pair(-1, 20)}, 1), "0{x0}");
}

TEST(CliFeedTest, ARangeIsNotSpelledOut) {
  FakeServer server([](const Words& words) { return Answer::text(bulk(option_of(words, "ID"))); });
  auto client = client::Client::connect(server.address()).value();
  Event stop;
  std::uint64_t told = 0;
  const SubmitArguments arguments = arguments_for("fib", {.arguments = {"n={}"}, .range = std::pair(-1, 4)});
  ASSERT_TRUE(
      Feed(client, arguments, -1, stop.fd(), {.on_jobs = [&](std::uint64_t jobs) { told = jobs; }}).run());
  EXPECT_EQ(told, 5U);
  EXPECT_THAT(server.commands().at(0), ElementsAre("SUBMIT", "fib", "ID", "b", "RANGE", "-1", "4", "n={}"));
}

}  // namespace
}  // namespace locksley::cli
