// Tables, figures and JSON: what people and programs are shown.

#include <gmock/gmock.h>

#include <cstring>

#include "daemon/cli/text/failure_text.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/status_text.h"
#include "daemon/cli/text/table.h"
#include "daemon/cli/text/utf8.h"
#include "proto/reply_reader.h"

namespace locksley::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CliTableTest, ColumnsAreAsWideAsTheirWidestCellAndNumbersStandRight) {
  Table table({{"NAME"}, {"JOBS", Table::Align::kRight}, {"STATE"}});
  table.add({"a", "1", "done"});
  table.add({"longer", "12345", ""});
  EXPECT_EQ(table.text(),
            "NAME     JOBS  STATE\n"
            "a           1  done\n"
            "longer  12345\n");
}

TEST(CliTableTest, WidthCountsCharactersNotBytes) {
  Table table({{"N"}, {"X"}});
  table.add({"\xC3\xA9\xC3\xA9", "1"});
  table.add({"abc", "2"});
  EXPECT_EQ(table.text(), "N    X\n\xC3\xA9\xC3\xA9   1\nabc  2\n");
}

TEST(CliTableTest, WidthCountsTheCellsThatATerminalTakes) {
  Table table({{"N"}, {"X"}});
  table.add({"\u6587\u4EF6", "1"});  // two letters of two cells each
  table.add({"e\u0301", "2"});       // an accent takes none
  table.add({"\uE000", "3"});        // for private use: not in the C library's tables
  EXPECT_EQ(table.text(),
            "N     X\n"
            "\u6587\u4EF6  1\n"
            "e\u0301     2\n"
            "\uE000     3\n");
}

TEST(CliTableTest, NothingThatATerminalObeysIsShown) {
  EXPECT_EQ(printable("a\x1b[2Jb\r\n\x7f\xff\xC2\x9B"), "a?[2Jb?????");
  EXPECT_EQ(printable("\xC3\xA9"), "\xC3\xA9");
}

TEST(CliUtf8Test, OnlyWellFormedTextIsUtf8) {
  for (const char* good : {"", "abc", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8F\xB9"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "\xF8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
}

TEST(CliFiguresTest, NumbersAreShort) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(9.5), "9.5");
  EXPECT_EQ(short_number(999.4), "999");
  EXPECT_EQ(short_number(999.6), "1k");
  EXPECT_EQ(short_number(12'400), "12.4k");
  EXPECT_EQ(short_number(3'050'000), "3.05M");
  EXPECT_EQ(short_number(100), "100");
}

TEST(CliFiguresTest, DurationsAreShort) {
  EXPECT_EQ(short_duration(milliseconds(812)), "812ms");
  EXPECT_EQ(short_duration(milliseconds(4'200)), "4.2s");
  EXPECT_EQ(short_duration(milliseconds(59'960)), "1:00");
  EXPECT_EQ(short_duration(milliseconds(65'000)), "1:05");
  EXPECT_EQ(short_duration(milliseconds(7'384'000)), "2:03:04");
  EXPECT_EQ(local_time(0), "-");
}

TEST(CliJsonTest, OutputsThatAreNoTextAreBase64) {
  EXPECT_EQ(json_text(client::ResultRow{3, "ok", "a\"\n"}), R"({"index":3,"status":"ok","output":"a\"\n"})");
  EXPECT_EQ(json_text(client::ResultRow{3, "ok", "\xff\xfe"}),
            R"({"index":3,"status":"ok","output_base64":"//4="})");
}

TEST(CliTableTest, WhatChangesTheDirectionOfWritingIsNotShown) {
  for (const char* const character : {"\u202A", "\u202E", "\u2066", "\u2069", "\u200E", "\u200F", "\u061C",
                                      "\u2028", "\u0085", "\u009F", "\x7F"}) {
    EXPECT_EQ(printable(std::string("a") + character + "b"), "a?b");
  }
  EXPECT_EQ(printable("\u00A0\u202F\u2065\u206A\u200D"), "\u00A0\u202F\u2065\u206A\u200D");
}

TEST(CliJsonTest, WhatATerminalObeysIsEscaped) {
  EXPECT_EQ(json_text(client::ResultRow{3, "ok",
                                        "a\u202Eb\u2069\u200F\u009B\x7F"
                                        "c\u00E4"}),
            "{\"index\":3,\"status\":\"ok\",\"output\":\"a\\u202eb\\u2069\\u200f\\u009b\\u007fc\u00E4\"}");
  EXPECT_EQ(json_object({{"na\u202Eme", std::string("\u2066")}}), R"({"na\u202eme":"\u2066"})");
}

TEST(CliJsonTest, AnOutputInAFileIsNamedByTheFile) {
  EXPECT_EQ(json_text(client::ResultRow{3, "ok", "a"}, {.file = "d/3"}),
            R"({"index":3,"status":"ok","file":"d/3"})");
}

TEST(CliJsonTest, AnInputIsNamedWhateverItsNameIs) {
  EXPECT_EQ(json_text(client::ResultRow{3, "ok", "a"}, {.input = "d/\u202e.jpg"}),
            R"({"index":3,"input":"d/\u202e.jpg","status":"ok","output":"a"})");
  EXPECT_EQ(json_text(client::ResultRow{3, "error", "a"}, {.input = "\xff", .payload = "\xfe"}),
            R"({"index":3,"input_base64":"/w==","status":"error","output":"a","payload_base64":"/g=="})");
}

TEST(CliJsonTest, Base64IsThatOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

TEST(CliJsonTest, RepliesKeepTheirShapeAndOrder) {
  const std::string_view bytes = "%2\r\n$1\r\nz\r\n:5\r\n$1\r\na\r\n*3\r\n$2\r\nx\xff\r\n_\r\n#t\r\n";
  proto::ReplyReader reader;
  std::memcpy(reader.prepare(bytes.size()).data(), bytes.data(), bytes.size());
  reader.commit(bytes.size());
  proto::Reply reply;
  ASSERT_EQ(reader.next(reply), proto::ReadStatus::kComplete);
  EXPECT_EQ(json_text(reply), "{\"z\":5,\"a\":[\"x\xEF\xBF\xBD\",null,true]}");
}

TEST(CliStatusTest, AListHasAColumnOfCustomersIfABatchHasOne) {
  client::BatchStatus one, two;
  one.id = "one";
  two.id = "two";
  two.customer = "acme";
  EXPECT_THAT(status_table(std::vector{one}), Not(HasSubstr("CUSTOMER")));
  const std::string table = status_table(std::vector{one, two});
  EXPECT_THAT(table, ContainsRegex("^BATCH +NAME +CUSTOMER +HANDLER"));
  EXPECT_THAT(table, ContainsRegex("\none +- +0"));
  EXPECT_THAT(table, ContainsRegex("\ntwo +acme +0"));
}

TEST(CliFailureTextTest, AMessageAndATracebackAreReadFromWhatThePackagesWrite) {
  const auto read = failure_text(
      "KeyError: 'a'\t{\"exception\":\"KeyError\",\"attempt\":1,\"traceback\":\"one\\n\\u00e9\\n\"}");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->message, "KeyError: 'a'");
  EXPECT_EQ(read->traceback, "one\n\xC3\xA9\n");
}

TEST(CliFailureTextTest, AnotherProgramsTextIsLeftAsItIs) {
  for (const std::string text :
       {"", "no TAB {}", "a\tb", "a\t", "a\t{", "a\t[]", "a\t{}", "a\t{\"traceback\":\"t\"}",
        "a\t{\"exception\":\"E\"}", "a\t{\"exception\":1,\"traceback\":\"t\"}",
        "a\t{\"exception\":\"E\",\"traceback\":null}", "a\t{\"exception\":\"E\",\"traceback\":\"\xff\"}",
        "a\t{\"exception\":\"E\",\"traceback\":\"t\"} more", "KeyError\tZGV0YWls"}) {
    EXPECT_FALSE(failure_text(text)) << text;
  }
  const auto of_length = [](std::size_t bytes) {
    const std::string head = "a\t{\"exception\":\"E\",\"traceback\":\"", tail = "\"}";
    return head + std::string(bytes - head.size() - tail.size(), 't') + tail;
  };
  EXPECT_TRUE(failure_text(of_length(65'536)));
  EXPECT_FALSE(failure_text(of_length(65'537))) << "longer than what a worker may write";
}

}  // namespace
}  // namespace locksley::cli
