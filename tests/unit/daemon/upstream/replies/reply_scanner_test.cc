// Received bytes to replies and their values, however the bytes arrive.
#include "daemon/upstream/replies/reply_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/upstream/replies/leased_jobs.h"
#include "daemon/upstream/replies/reply_cursor.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using Status = ReplyScanner::Status;

void give(ReplyScanner& scanner, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto space = scanner.prepare();
    const std::size_t n = std::min(space.size(), bytes.size());
    std::copy_n(bytes.data(), n, space.data());
    scanner.commit(n);
    bytes.remove_prefix(n);
  }
}

std::vector<std::string> all(ReplyScanner& scanner) {
  std::vector<std::string> replies;
  std::string_view reply;
  while (scanner.next(reply) == Status::kWhole) replies.emplace_back(reply);
  return replies;
}

TEST(ReplyScannerTest, FindsWholeRepliesWhateverPiecesArrive) {
  const std::vector<std::string> replies = {"+OK\r\n",
                                            "$-1\r\n",
                                            "_\r\n",
                                            "*0\r\n",
                                            "*2\r\n*1\r\n:5\r\n$3\r\na\r\n\r\n",
                                            ">3\r\n+CUT\r\n$1\r\nx\r\n:5\r\n",
                                            "%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n",
                                            "*3\r\n*4\r\n$1\r\na\r\n$0\r\n\r\n$11\r\nhello\r\n$1\r\n\r\n"
                                            "$2\r\nbc\r\n*2\r\n$1\r\nd\r\n:1\r\n$1\r\ne\r\n",
                                            "-ERR no\r\n",
                                            "$0\r\n\r\n",
                                            "$12\r\nab\r\n$1\r\nefgh\r\n",
                                            "$101\r\n" + std::string(101, 'y') + "\r\n"};
  std::string bytes;
  for (const std::string& reply : replies) bytes += reply;
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    ReplyScanner scanner;
    std::vector<std::string> found;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      give(scanner, std::string_view(bytes).substr(at, piece));
      for (std::string& reply : all(scanner)) found.push_back(std::move(reply));
    }
    EXPECT_EQ(found, replies) << "in pieces of " << piece;
  }
}

TEST(ReplyScannerTest, ALargeReplyKeepsItsBytes) {
  const std::string payload(3'000'000, 'x');
  const std::string reply = "*2\r\n$3000000\r\n" + payload + "\r\n:7\r\n";
  ReplyScanner scanner;
  for (int i = 0; i < 3; ++i) {
    give(scanner, reply);
    EXPECT_THAT(all(scanner), ElementsAre(reply));
    give(scanner, "+OK\r\n");
    EXPECT_THAT(all(scanner), ElementsAre("+OK\r\n"));
  }
}

TEST(ReplyScannerTest, WhatIsNoReplyIsRefused) {
  for (const char* bytes : {"hello\r\n", "$5\r\nabcdefg\r\n", "$x\r\n", "$-2\r\n", "*-7\r\n",
                            "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "$999999999999\r\n",
                            "\n", "*3\r\n$1\r\na\r\n$1\r\nbcde\r\n$1\r\nf\r\n"}) {
    ReplyScanner scanner;
    give(scanner, bytes);
    std::string_view reply;
    EXPECT_EQ(scanner.next(reply), Status::kInvalid) << bytes;
    EXPECT_EQ(scanner.next(reply), Status::kInvalid) << bytes;
  }
}

TEST(ReplyScannerTest, ALineWithoutEndIsRefused) {
  ReplyScanner scanner;
  give(scanner, "+" + std::string(100'000, 'x'));
  std::string_view reply;
  EXPECT_EQ(scanner.next(reply), Status::kInvalid);
}

TEST(ReplyCursorTest, ReadsValuesAndPassesOverOthers) {
  ReplyCursor cursor("*6\r\n$2\r\nab\r\n:-7\r\n%1\r\n+k\r\n*1\r\n:1\r\n=7\r\ntxt:hey\r\n_\r\n#t\r\n");
  EXPECT_EQ(cursor.array(), 6U);
  EXPECT_EQ(cursor.text(), "ab");
  EXPECT_EQ(cursor.integer(), -7);
  cursor.skip();
  EXPECT_EQ(cursor.text(), "hey");
  EXPECT_TRUE(cursor.is_null());
  cursor.skip();
  cursor.skip();
  EXPECT_TRUE(cursor.at_end());
  EXPECT_FALSE(cursor.is_bad());
}

TEST(ReplyCursorTest, StringsOfAnyLengthAreWhatWasSent) {
  for (std::size_t length = 0; length < 130; ++length) {
    const std::string text(length, 'x');
    const std::string reply = "$" + std::to_string(length) + "\r\n" + text + "\r\n";
    ReplyCursor cursor(reply);
    EXPECT_EQ(cursor.text(), text);
    EXPECT_TRUE(cursor.at_end());
    ReplyCursor cut(std::string_view(reply).substr(0, reply.size() - 1));
    EXPECT_EQ(cut.text(), "");
    EXPECT_TRUE(cut.is_bad());
  }
}

TEST(ReplyCursorTest, AValueOfAnotherKindMakesTheRestBad) {
  ReplyCursor cursor("*2\r\n:1\r\n:2\r\n");
  cursor.array();
  EXPECT_EQ(cursor.text(), "");
  EXPECT_TRUE(cursor.is_bad());
  EXPECT_EQ(cursor.integer(), 0);
}

TEST(LeasedJobsTest, ALaterVersionsFurtherElementsAreIgnored) {
  const auto jobs = read_leased_jobs(
      "*15\r\n+l\r\n:9\r\n+echo\r\n:5\r\n:2\r\n:1\r\n:0\r\n_\r\n*2\r\n$1\r\na\r\n$0\r\n\r\n+b\r\n+t\r\n_\r\n_"
      "\r\n_\r\n*1\r\n:1\r\n");
  ASSERT_TRUE(jobs.has_value()) << jobs.error();
  EXPECT_EQ(jobs->range, (IndexRange{5, 7}));
  std::vector<std::string_view> payloads(2);
  std::string scratch;
  EXPECT_EQ(jobs->payloads->fetch(5, payloads, scratch), 2U);
  EXPECT_THAT(payloads, ElementsAre("a", ""));
}

TEST(LeasedJobsTest, WhatIsNoLeaseIsRefused) {
  const std::string end = "+b\r\n+t\r\n_\r\n_\r\n_\r\n";
  for (const std::string& reply :
       {std::string("*1\r\n+l\r\n"), "*14\r\n+l\r\n:9\r\n+echo\r\n:5\r\n:0\r\n:1\r\n:0\r\n_\r\n*0\r\n" + end,
        "*14\r\n+l\r\n:9\r\n+echo\r\n:5\r\n:2\r\n:1\r\n:0\r\n_\r\n*1\r\n+a\r\n" + end,
        "*14\r\n+l\r\n:9\r\n+echo\r\n:5\r\n:2\r\n:1\r\n:0\r\n_\r\n*0\r\n" + end,
        "*14\r\n+l\r\n:9\r\n+echo\r\n:5\r\n:1\r\n:1\r\n:9223372036854775807\r\n_\r\n*1\r\n+a\r\n" + end,
        "*14\r\n+l\r\n:9\r\n+echo\r\n:-5\r\n:2\r\n:1\r\n:0\r\n_\r\n*2\r\n+a\r\n+b\r\n" + end}) {
    EXPECT_FALSE(read_leased_jobs(reply).has_value()) << reply;
  }
}

}  // namespace
}  // namespace locksley::daemon
