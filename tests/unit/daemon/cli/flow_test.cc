// Length: one fake daemon for all of it.
// Payloads in, outputs out: the parts of `submit` and `run` that move data, and `bench`'s sums.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "daemon/cli/bench/bench_plan.h"
#include "daemon/cli/bench/bench_throughput.h"
#include "daemon/cli/bench/latency.h"
#include "daemon/cli/context/event.h"
#include "daemon/cli/feed/feed.h"
#include "daemon/cli/feed/payload_source.h"
#include "daemon/cli/text/ordered_outputs.h"
#include "daemon/cli/text/output.h"
#include "tests/support/fake_server.h"
#include "tests/support/own_path.h"

namespace locksley::cli {
namespace {

using namespace locksley::testing::fake;
using ::testing::ElementsAre;
using Outcome = RecordReader::Outcome;
using std::chrono::milliseconds;

constexpr milliseconds kLong = std::chrono::minutes(1);

// A pipe whose writing end the test fills.
struct Pipe {
  int ends[2];
  Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  ~Pipe() {
    ::close(ends[0]);
    close_writer();
  }
  void write(std::string_view bytes) {
    EXPECT_EQ(::write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void close_writer() {
    if (ends[1] >= 0) ::close(std::exchange(ends[1], -1));
  }
};

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

// Adds the indexes in a random order and expects them in order, with the outputs that belong to
// them.
void expect_ordered(std::size_t memory_bytes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<std::uint64_t> indexes(2000);
  for (std::size_t i = 0; i < indexes.size(); ++i) indexes[i] = i;
  std::ranges::shuffle(indexes, random);
  const auto output_of = [](std::uint64_t index) {
    return std::string(index % 50, 'x') + std::to_string(index);
  };
  std::vector<std::string> shown;
  OrderedOutputs ordered(memory_bytes, [&](const client::ResultRow& row) {
    EXPECT_EQ(row.index, shown.size());
    EXPECT_EQ(row.status, row.index % 3 == 0 ? "error" : "ok");
    shown.emplace_back(row.output);
  });
  for (const std::uint64_t index : indexes) {
    ordered.add({index, index % 3 == 0 ? "error" : "ok", output_of(index)});
    EXPECT_LE(ordered.held_in_memory_bytes(), memory_bytes);
  }
  ordered.finish();
  ASSERT_EQ(shown.size(), indexes.size());
  for (std::size_t i = 0; i < shown.size(); ++i) EXPECT_EQ(shown[i], output_of(i));
  EXPECT_EQ(ordered.held(), 0U);
  EXPECT_EQ(ordered.held_in_memory_bytes(), 0U);
}

TEST(CliOrderedOutputsTest, AnyOrderComesOutInOrderFromMemory) { expect_ordered(std::size_t{1} << 20); }

TEST(CliOrderedOutputsTest, AnyOrderComesOutInOrderFromTheFile) { expect_ordered(500); }

TEST(CliOrderedOutputsTest, FinishShowsWhatStandsBehindAGap) {
  std::vector<std::uint64_t> shown;
  OrderedOutputs ordered(1000, [&](const client::ResultRow& row) { shown.push_back(row.index); });
  ordered.add({4, "ok", ""});
  ordered.add({0, "ok", ""});
  ordered.add({2, "ok", ""});
  EXPECT_THAT(shown, ElementsAre(0));
  ordered.finish();
  EXPECT_THAT(shown, ElementsAre(0, 2, 4));
}

TEST(CliOutputTest, AReaderThatWentAwayIsRemembered) {
  ASSERT_NE(std::signal(SIGPIPE, SIG_IGN), SIG_ERR);
  Pipe pipe;
  Event stop;
  ::close(pipe.ends[0]);
  pipe.ends[0] = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  Output output(pipe.ends[1], stop.fd());
  output.append("x");
  output.flush();
  EXPECT_EQ(output.error(), EPIPE);
}

TEST(CliOutputTest, AFullPipeDoesNotHoldUpAnInterruptAndNothingIsLost) {
  Pipe pipe;
  Event stop;
  Output output(pipe.ends[1], stop.fd());
  stop.raise();
  const std::string bytes(300'000, 'y');  // more than a pipe holds
  output.append(bytes);
  EXPECT_EQ(output.error(), 0);
  std::string read;
  std::vector<char> buffer(65'536);
  while (read.size() < bytes.size()) {
    const ssize_t count = ::read(pipe.ends[0], buffer.data(), buffer.size());
    ASSERT_GT(count, 0);
    read.append(buffer.data(), static_cast<std::size_t>(count));
    output.flush();
  }
  EXPECT_EQ(read, bytes);
}

TEST(CliOutputTest, AnOutputThatWasStoppedDoesNotWaitForItsReaderAtItsEnd) {
  Pipe pipe;
  Event stop;
  {
    Output output(pipe.ends[1], stop.fd());
    stop.raise();
    output.append(std::string(300'000, 'y'));
    EXPECT_FALSE(output.is_empty());
    eventfd_t taken = 0;
    ASSERT_EQ(::eventfd_read(stop.fd(), &taken), 0);  // as a caller that takes the signal
  }
}

TEST(CliBenchTest, EveryJobIsInOneBatch) {
  const auto plan = BenchPlan::make({.jobs = 25, .payload_bytes = 4, .batch = 10, .connections = 8}).value();
  EXPECT_EQ(plan.batches(), 3U);
  EXPECT_EQ(plan.connections(), 3U);
  EXPECT_EQ(plan.jobs_of(0) + plan.jobs_of(1) + plan.jobs_of(2), 25U);
  EXPECT_EQ(plan.jobs_of(2), 5U);
  EXPECT_EQ(plan.payloads(2), "$4\r\n0000\r\n$4\r\n0001\r\n");
}

TEST(CliBenchTest, SingleJobsAreDealtToAllConnections) {
  const auto plan = BenchPlan::make({.jobs = 10, .connections = 4, .latency = true}).value();
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < 4; ++i) sum += plan.jobs_of_connection(i);
  EXPECT_EQ(sum, 10U);
}

TEST(CliBenchTest, ABatchLargerThanACommandIsRefused) {
  EXPECT_FALSE(BenchPlan::make({.jobs = 10'000'000, .payload_bytes = 1000, .batch = 10'000'000}));
}

TEST(CliBenchTest, RowsAreCompleteOnlyWithEveryIndexOnce) {
  RowCheck check;
  check.add(0, "ok", "ab");
  check.add(2, "error", "");
  EXPECT_FALSE(check.is_complete(3));
  check.add(2, "ok", "cd");
  EXPECT_FALSE(check.is_complete(3));
  RowCheck good;
  for (const std::uint64_t index : {2U, 0U, 1U}) good.add(index, "ok", "abc");
  EXPECT_TRUE(good.is_complete(3));
  EXPECT_EQ(good.ok, 3U);
  EXPECT_EQ(good.output_bytes, 9U);
}

TEST(CliBenchTest, QuantilesAreByNearestRank) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 1; i <= 1000; ++i) values.push_back(i);
  EXPECT_EQ(quantile(values, 0.5), 500U);
  EXPECT_EQ(quantile(values, 0.999), 999U);
  EXPECT_EQ(quantile(values, 1.0), 1000U);
  EXPECT_EQ(quantile({}, 0.5), 0U);
  EXPECT_EQ(quantile({7}, 0.001), 7U);
  const LatencySummary summary = summarize({3000, 1000, 2000});
  EXPECT_DOUBLE_EQ(summary.p50_us, 2);
  EXPECT_DOUBLE_EQ(summary.max_us, 3);
  EXPECT_DOUBLE_EQ(summary.mean_us, 2);
}

// A server that runs `echo`: batches by id.
struct EchoServer {
  std::map<std::string, std::vector<std::string>> batches;
  bool loses_a_job = false;
  FakeServer server{[this](const Words& words) { return answer(words); }};

  Answer answer(const Words& words) {
    if (words[0] == "SUBMIT") {
      const std::string id = option_of(words, "ID");
      batches[id].assign(std::ranges::find(words, "JOBS") + 1, words.end());
      return Answer::text(bulk(id));
    }
    if (words[0] == "FORGET") return Answer::text(integer(batches.erase(words[1])));
    const auto& jobs = batches[words[1]];
    if (words[0] == "WAIT") return Answer::text(status_map(words[1], "done", jobs.size(), jobs.size()));
    // In pages of 4, whatever COUNT says, as a daemon that bounds its replies may.
    std::vector<Row> rows;
    std::size_t next = std::stoul(option_of(words, "FROM"));
    for (; next < jobs.size() && rows.size() < 4; ++next) rows.push_back({next, "ok", jobs[next]});
    const bool is_last = next == jobs.size();
    if (is_last && loses_a_job) rows.pop_back();
    return Answer::text(results_reply(is_last ? 0 : next, rows));
  }
};

TEST(CliBenchTest, AllBatchesAreSubmittedReadAndForgotten) {
  EchoServer fake;
  const auto plan = BenchPlan::make({.jobs = 95, .payload_bytes = 3, .batch = 10, .connections = 1}).value();
  client::Connection connection(-1);
  ASSERT_TRUE(connection.open(fake.server.address(), "", client::deadline_in(kLong)));
  const auto count = ThroughputConnection(plan, 0, connection).run();
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(count->jobs, 95U);
  EXPECT_EQ(count->ok, 95U);
  EXPECT_EQ(count->output_bytes, 95U * 3);
  EXPECT_GT(count->last_received, count->first_sent);
  connection.close();
  EXPECT_TRUE(fake.batches.empty());
}

TEST(CliBenchTest, ALostJobIsNoticed) {
  EchoServer fake;
  fake.loses_a_job = true;
  const auto plan = BenchPlan::make({.jobs = 10, .batch = 10, .connections = 1}).value();
  client::Connection connection(-1);
  ASSERT_TRUE(connection.open(fake.server.address(), "", client::deadline_in(kLong)));
  const auto count = ThroughputConnection(plan, 0, connection).run();
  ASSERT_FALSE(count);
  EXPECT_THAT(count.error().message, ::testing::HasSubstr("of a batch of 10 jobs, 9 results came"));
}

}  // namespace
}  // namespace locksley::cli
