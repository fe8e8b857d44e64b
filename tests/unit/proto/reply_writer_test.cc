#include "proto/reply_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "proto/bulk.h"
#include "proto/command_writer.h"

namespace locksley::proto::reply_writer_test {
namespace {

template <typename Write>
std::string written(Protocol protocol, const Write& write) {
  OutputBuffer out;
  ReplyWriter writer(out, protocol);
  write(writer);
  return out.to_string();
}

// What `write` writes in RESP2, " | ", and in RESP3.
template <typename Write>
std::string both(const Write& write) {
  return written(Protocol::kResp2, write) + " | " + written(Protocol::kResp3, write);
}

TEST(ReplyWriterTest, TypesThatAreAlikeInBothVersions) {
  EXPECT_EQ(both([](ReplyWriter& w) { w.ok(); }), "+OK\r\n | +OK\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.simple("PONG"); }), "+PONG\r\n | +PONG\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.integer(-7); }), ":-7\r\n | :-7\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.bulk(""); }), "$0\r\n\r\n | $0\r\n\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.bulk("a\r\nb"); }), "$4\r\na\r\nb\r\n | $4\r\na\r\nb\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.bulk_integer(120); }), "$3\r\n120\r\n | $3\r\n120\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.array(12); }), "*12\r\n | *12\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.result_row(5, "ok", "out"); }),
            "*3\r\n:5\r\n$2\r\nok\r\n$3\r\nout\r\n | *3\r\n:5\r\n$2\r\nok\r\n$3\r\nout\r\n");
}

TEST(ReplyWriterTest, TypesThatDiffer) {
  EXPECT_EQ(both([](ReplyWriter& w) { w.null(); }), "$-1\r\n | _\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.map(7); }), "*14\r\n | %7\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.push(3); }), "*3\r\n | >3\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.verbatim("a:b\r\n"); }), "$5\r\na:b\r\n\r\n | =9\r\ntxt:a:b\r\n\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.real(0.25); }), "$4\r\n0.25\r\n | ,0.25\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.real(-HUGE_VAL); }), "$4\r\n-inf\r\n | ,-inf\r\n");
  EXPECT_EQ(both([](ReplyWriter& w) { w.real(std::nan("")); }), "$3\r\nnan\r\n | ,nan\r\n");
}

TEST(ReplyWriterTest, AnErrorCannotSplitTheReplyAndIsCut) {
  EXPECT_EQ(written(Protocol::kResp2, [](ReplyWriter& w) { w.error("ERR a\r\n+OK\r\n\tb"); }),
            "-ERR a  +OK   b\r\n");
  const std::string cut =
      written(Protocol::kResp2, [](ReplyWriter& w) { w.error("ERR " + std::string(5000, 'x')); });
  EXPECT_EQ(cut.size(), ReplyWriter::kMaxErrorBytes + 3);
}

TEST(ReplyWriterTest, IntegersOfAllLengths) {
  std::int64_t value = 0;
  for (int digits = 1; digits <= 19; ++digits) {
    value = value * 10 + digits % 10;
    for (const std::int64_t one : {value, -value}) {
      EXPECT_EQ(written(Protocol::kResp2, [&](ReplyWriter& w) { w.integer(one); }),
                ":" + std::to_string(one) + "\r\n");
    }
  }
  for (const std::int64_t one :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(written(Protocol::kResp2, [&](ReplyWriter& w) { w.integer(one); }),
              ":" + std::to_string(one) + "\r\n");
  }
}

TEST(ReplyWriterTest, IndexesOfAllLengthsInARow) {
  std::vector<std::uint64_t> indexes = {0, std::numeric_limits<std::uint64_t>::max()};
  for (std::uint64_t power = 1; power <= 1'000'000'000'000; power *= 10) {
    for (const std::uint64_t one : {power - 1, power, power + 1, 5 * power, 37 * power + 9})
      indexes.push_back(one);
  }
  for (const std::uint64_t index : indexes) {
    EXPECT_EQ(written(Protocol::kResp2, [&](ReplyWriter& w) { w.result_row(index, "ok", "out"); }),
              "*3\r\n:" + std::to_string(index) + "\r\n$2\r\nok\r\n$3\r\nout\r\n");
  }
}

TEST(ReplyWriterTest, LongOutputsAreWholeInARow) {
  const std::string output(3'000'000, 'z');
  EXPECT_EQ(written(Protocol::kResp2, [&](ReplyWriter& w) { w.result_row(1'000'000, "error", output); }),
            "*3\r\n:1000000\r\n$5\r\nerror\r\n$3000000\r\n" + output + "\r\n");
}

TEST(BulkTest, CopiesStringsOfEveryLengthAndNothingBesideThem) {
  for (std::size_t length = 0; length <= 70; ++length) {
    std::string bytes;
    for (std::size_t i = 0; i < length; ++i) bytes += static_cast<char>('0' + i);
    std::string space(length + 4, '?');
    EXPECT_EQ(write_line(space.data() + 1, bytes), space.data() + 1 + length + 2);
    EXPECT_EQ(space, "?" + bytes + "\r\n?");
  }
}

TEST(BulkTest, TakesTheBytesThatAreAskedForInAdvance) {
  for (const std::size_t length : {0U, 1U, 9U, 10U, 99U, 100U, 999U, 1000U, 65'536U}) {
    std::string space(max_bulk_bytes(length), '?');
    const auto written =
        static_cast<std::size_t>(write_bulk(space.data(), std::string(length, 'x')) - space.data());
    EXPECT_EQ(written, bulk_bytes(length)) << length;
    EXPECT_EQ(space.substr(0, written),
              "$" + std::to_string(length) + "\r\n" + std::string(length, 'x') + "\r\n");
  }
}

TEST(CommandWriterTest, WritesArraysOfBulkStrings) {
  OutputBuffer out;
  CommandWriter writer(out);
  writer.command({"STATUS", "x"});
  writer.begin(3);
  writer.argument(std::string_view("WEIGHT"));
  writer.argument(-12);
  writer.argument(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(
      out.to_string(),
      "*2\r\n$6\r\nSTATUS\r\n$1\r\nx\r\n*3\r\n$6\r\nWEIGHT\r\n$3\r\n-12\r\n$20\r\n18446744073709551615\r\n");
}

}  // namespace
}  // namespace locksley::proto::reply_writer_test
