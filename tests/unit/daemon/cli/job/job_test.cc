// One job in the hand: what `job`, `running`, `log` and `results --failed --payloads` make of the
// daemon's replies.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/cli/context/event.h"
#include "daemon/cli/job/bytes_text.h"
#include "daemon/cli/job/failed_payloads.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/output.h"
#include "tests/support/fake_server.h"

namespace locksley::cli {
namespace {

using namespace locksley::testing::fake;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CliBytesTextTest, TextIsLinesThatATerminalCanShow) {
  EXPECT_EQ(bytes_text("one\ntwo\r\n\tthree", 100), "  one\n  two\n   three\n");
  EXPECT_EQ(bytes_text("\xC3\xA9\xE2\x80\xAE", 100), "  \xC3\xA9?\n");
  EXPECT_EQ(bytes_text("", 100), "");
  EXPECT_EQ(bytes_text("abc", 2), "  ab\n  (1 more byte)\n");
  EXPECT_EQ(bytes_text("a\xC3\xA9\xC3\xA9", 2), "  a?\n  (3 more bytes)\n")
      << "cut inside a character, it is text still";
}

TEST(CliBytesTextTest, OtherBytesAreHexadecimal) {
  EXPECT_EQ(bytes_text(std::string_view("\x89PNG\0~\x7f", 7), 100),
            "  000000  89 50 4e 47 00 7e 7f                             .PNG.~.\n");
  EXPECT_EQ(bytes_text(std::string(17, '\1'), 17),
            "  000000  01 01 01 01 01 01 01 01 01 01 01 01 01 01 01 01  ................\n"
            "  000010  01                                               .\n");
  EXPECT_THAT(bytes_text("\x1b[2J", 100), HasSubstr("1b 5b 32 4a"));
  EXPECT_THAT(bytes_text("\xff", 100), HasSubstr("ff"));
}

TEST(CliBytesTextTest, TheEndOfLongBytesIsShownIfTheirEndMatters) {
  EXPECT_EQ(bytes_text("abc", 2, Shown::kEnd), "  (1 earlier byte)\n  bc\n");
  EXPECT_EQ(bytes_text("abc", 3, Shown::kEnd), "  abc\n");
  EXPECT_EQ(bytes_text("ab\xF0\x9F\x98\x80z", 3, Shown::kEnd), "  (6 earlier bytes)\n  z\n")
      << "cut inside a character, it is text still";
  EXPECT_EQ(bytes_text(std::string("\0\x80\0", 3), 2, Shown::kEnd),
            "  (1 earlier byte)\n"
            "  000001  80 00                                            ..\n");
  EXPECT_EQ(bytes_text("abc", 0, Shown::kEnd), "  (3 earlier bytes)\n");
}

std::string job_map(std::uint64_t index, const std::string& payload) {
  return "%4\r\n" + bulk("index") + integer(index) + bulk("status") + bulk("error") + bulk("attempt") +
         integer(2) + bulk("payload") + payload;
}

TEST(CliJobTest, WhatTheReplySaysIsKnownAndWhatItLacksIsNot) {
  FakeServer server([](const Words&) { return Answer::text(job_map(3, "_\r\n")); });
  auto client = client::Client::connect(server.address()).value();
  const auto job = client.job("b", 3).value();
  EXPECT_EQ(job.index, 3U);
  EXPECT_EQ(job.attempt, 2U);
  EXPECT_TRUE(job.is_over());
  EXPECT_FALSE(job.payload);
  EXPECT_FALSE(job.progress);
  EXPECT_THAT(server.commands().at(0), ElementsAre("JOB", "b", "3"));
}

TEST(CliJobTest, JsonKeepsEachByteOfAJob) {
  FakeServer server([](const Words&) { return Answer::text(job_map(3, bulk("\xff"))); });
  auto client = client::Client::connect(server.address()).value();
  EXPECT_EQ(json_of_job(client.call({"JOB", "b", "3"}).value()),
            R"({"index":3,"status":"error","attempt":2,"payload_base64":"/w=="})");
}

TEST(CliJobTest, RunningJobsAreRows) {
  FakeServer server([](const Words& words) {
    const std::string row = "*8\r\n" + bulk("b") + integer(7) + integer(1) + integer(2500) + bulk("gpu-1") +
                            integer(40) + bulk("halfway") + bulk("of a later version");
    return Answer::text(words.size() == 1 ? "*1\r\n" + row : "*0\r\n");
  });
  auto client = client::Client::connect(server.address()).value();
  const auto jobs = client.running().value();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].id, "b");
  EXPECT_EQ(jobs[0].index, 7U);
  EXPECT_EQ(jobs[0].since_ms, 2500U);
  EXPECT_EQ(jobs[0].progress, 40);
  EXPECT_EQ(jobs[0].note, "halfway");
  EXPECT_TRUE(client.running("other").value().empty());
  EXPECT_THAT(server.commands().at(1), ElementsAre("RUNNING", "other"));
}

TEST(CliJobTest, ALogIsReadFromAnOffset) {
  FakeServer server([](const Words&) { return Answer::text("*2\r\n" + integer(12) + bulk("bytes")); });
  auto client = client::Client::connect(server.address()).value();
  const auto part = client.log("b", 3, 7, std::chrono::milliseconds(50)).value();
  EXPECT_EQ(part.next, 12U);
  EXPECT_EQ(part.bytes, "bytes");
  EXPECT_THAT(server.commands().at(0), ElementsAre("LOG", "b", "3", "FROM", "7", "BLOCK", "50"));
}

// What FailedPayloads writes for these failed jobs, of which those that are odd have no payload any
// more.
std::string shown_payloads(FailedPayloads::Options options, std::uint64_t jobs, std::uint64_t& missing) {
  FakeServer server([](const Words& words) {
    const std::uint64_t index = std::stoull(words.at(2));
    return Answer::text(job_map(index, index % 2 == 0 ? bulk("p" + words[2]) : "_\r\n"));
  });
  auto client = client::Client::connect(server.address()).value();
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Event stop;
  const std::string id = "b";
  {
    Output output(ends[1], stop.fd());
    FailedPayloads payloads(client, id, output, std::move(options));
    for (std::uint64_t i = 0; i < jobs; ++i) payloads.add({i, "error", "bad"});
    const auto shown = payloads.show();
    EXPECT_TRUE(shown) << shown.error().message;
    missing = payloads.missing();
  }
  ::close(ends[1]);
  std::string text(1 << 16, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(ends[0], text.data(), text.size()), 0)));
  ::close(ends[0]);
  EXPECT_EQ(server.commands().size(), jobs);
  return text;
}

TEST(CliFailedPayloadsTest, ThoseThatAreKeptArePrintedInOrderAndTheOthersCounted) {
  std::uint64_t missing = 0;
  std::string expected;
  for (int i = 0; i < 1000; i += 2) expected += "p" + std::to_string(i) + '\0';
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(shown_payloads({.separator = '\0'}, 1000, missing), expected);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(missing, 500U);
  EXPECT_EQ(std::ranges::count(said, '\n'), 500);
  EXPECT_THAT(said, ::testing::StartsWith("job 1: its payload is no longer kept\njob 3: its"));
}

TEST(CliFailedPayloadsTest, WithJsonTheyAreMembers) {
  std::uint64_t missing = 0;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(
      shown_payloads({.json = true, .name_of = [](std::uint64_t) { return std::optional<std::string>("n"); }},
                     2, missing),
      R"({"index":0,"input":"n","status":"error","output":"bad","payload":"p0"})"
      "\n"
      R"({"index":1,"input":"n","status":"error","output":"bad"})"
      "\n");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "n (job 1): its payload is no longer kept\n");
  EXPECT_EQ(missing, 1U);
}

}  // namespace
}  // namespace locksley::cli
