#include "proto/reply_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ostream>

#include "proto/reply_writer.h"
#include "tests/unit/proto/reader_support.h"

namespace locksley::proto::reply_reader_test {
namespace {

using std::string_literals::operator""s;

// A reply as text, so that trees are easy to compare and to read.
std::string show(const Reply& reply) {
  const auto elements = [&](std::string_view open, std::string_view close) {
    std::string text(open);
    for (const Reply& one : reply.elements) text += (text.size() > open.size() ? " " : "") + show(one);
    return text += close;
  };
  switch (reply.type) {
    case Reply::Type::kNull:
      return "null";
    case Reply::Type::kSimple:
      return "+" + reply.text;
    case Reply::Type::kError:
      return "-" + reply.text;
    case Reply::Type::kInteger:
      return std::to_string(reply.integer);
    case Reply::Type::kBulk:
      return "'" + reply.text + "'";
    case Reply::Type::kVerbatim:
      return "txt'" + reply.text + "'";
    case Reply::Type::kDouble:
      return std::isnan(reply.real) ? "nan" : std::to_string(reply.real);
    case Reply::Type::kBoolean:
      return reply.integer != 0 ? "true" : "false";
    case Reply::Type::kBigNumber:
      return "big" + reply.text;
    case Reply::Type::kArray:
      return elements("[", "]");
    case Reply::Type::kMap:
      return elements("{", "}");
    case Reply::Type::kPush:
      return elements("push[", "]");
  }
  return "?";
}

// All replies in `pieces`, one a line, and the error if there is one.
std::string read_pieces(const std::vector<std::string_view>& pieces, const ReplyLimits& limits) {
  ReplyReader reader(limits);
  std::string text;
  for (std::string_view piece : pieces) {
    bool is_broken = false;
    feed(reader, piece, [&] {
      Reply reply;
      ReadStatus status = ReadStatus::kNeedMore;
      while ((status = reader.next(reply)) == ReadStatus::kComplete) text += show(reply) + "\n";
      is_broken = status == ReadStatus::kError;
    });
    if (is_broken) return text + reader.error_message();
  }
  return text;
}

struct Case {
  std::string name;
  std::string bytes;
  std::string shown;
  ReplyLimits limits = {};
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::vector<Case> cases() {
  return {
      {"Simple", "+OK\r\n+\r\n", "+OK\n+\n"},
      {"Error", "-NOBATCH no batch 'x'\r\n", "-NOBATCH no batch 'x'\n"},
      {"Integers", ":0\r\n:-1\r\n:9223372036854775807\r\n:-9223372036854775808\r\n",
       "0\n-1\n9223372036854775807\n-9223372036854775808\n"},
      {"Bulk", "$5\r\na\r\nbc\r\n$0\r\n\r\n", "'a\r\nbc'\n''\n"},
      {"Nulls", "$-1\r\n*-1\r\n_\r\n", "null\nnull\nnull\n"},
      {"Arrays", "*0\r\n*2\r\n:1\r\n*2\r\n*0\r\n$1\r\nx\r\n~1\r\n+a\r\n", "[]\n[1 [[] 'x']]\n[+a]\n"},
      {"Maps", "%0\r\n%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n%1\r\n+c\r\n_\r\n", "{}\n{'a' 1 'b' {+c null}}\n"},
      {"Push", ">3\r\n+message\r\n+batches\r\n$2\r\n{}\r\n:1\r\n", "push[+message +batches '{}']\n1\n"},
      {"Doubles", ",1.5\r\n,-2e3\r\n,nan\r\n,10\r\n", "1.500000\n-2000.000000\nnan\n10.000000\n"},
      {"Booleans", "#t\r\n#f\r\n", "true\nfalse\n"},
      {"BigNumber", "(3492890328409238509324850943850943825024385\r\n",
       "big3492890328409238509324850943850943825024385\n"},
      {"Verbatim", "=8\r\ntxt:a:b\n\r\n", "txt'a:b\n'\n"},
      {"BlobError", "!8\r\nERR a\r\nb\r\n", "-ERR a\r\nb\n"},
      {"AttributeIsDropped", "|1\r\n+ttl\r\n*1\r\n:3\r\n*2\r\n:1\r\n|1\r\n+a\r\n+b\r\n:2\r\n", "[1 2]\n"},
      {"EmptyAttribute", "|0\r\n:1\r\n", "1\n"},
      {"UnknownType", "?1\r\n", "broken reply: unexpected '?'"},
      {"BadInteger", ":12x\r\n", "broken reply: '12x' is not an integer"},
      {"BadDouble", ",1.5.2\r\n", "broken reply: unexpected ',1.5.2'"},
      {"BadBoolean", "#x\r\n", "broken reply: unexpected '#x'"},
      {"BadNull", "_x\r\n", "broken reply: unexpected '_x'"},
      {"BadLineEnd", "+OK\rx", "broken reply: CR without LF"},
      {"LineFeedAlone", "+a\nb\r\n", "broken reply: LF without CR"},
      {"LineFeedBeforeAnotherLine", ":1\r\n#f\n#t\r\n", "1\nbroken reply: LF without CR"},
      {"BadBulkEnd", "$2\r\nabcd", "broken reply: a string does not end where its length says"},
      {"BadVerbatim", "=2\r\nab\r\n", "broken reply: a verbatim string without its kind"},
      {"Streamed", "*?\r\n", "broken reply: '?' is not an integer"},
      {"NegativeBulk", "$-2\r\n", "broken reply: a string of -2 bytes"},
      {"NegativeMap", "%-1\r\n", "broken reply: an aggregate of -1 elements"},
      {"BulkOverLimit", "$11\r\n", "broken reply: a string of 11 bytes", {.max_bulk_bytes = 10}},
      {"ElementsOverLimit", "*11\r\n", "broken reply: an aggregate of 11 elements", {.max_elements = 10}},
      {"AsDeepAsAllowed", "*1\r\n*1\r\n*1\r\n:7\r\n", "[[[7]]]\n", {.max_depth = 3}},
      {"AsLargeAsAllowed", "*2\r\n+1\r\n$2\r\nab\r\n:1\r\n", "[+1 'ab']\n1\n", {.max_reply_bytes = 16}},
      {"TooLarge", "*2\r\n+1\r\n$2\r\nab\r\n", "broken reply: more than 15 bytes", {.max_reply_bytes = 15}},
      {"TooLargeWithItsAttribute",
       "|1\r\n+a\r\n+b\r\n+abc\r\n",
       "broken reply: more than 16 bytes",
       {.max_reply_bytes = 16}},
      {"TooDeep", "*1\r\n*1\r\n*1\r\n*1\r\n", "broken reply: nested too deeply", {.max_depth = 3}},
  };
}

class ReplyReaderCases : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, ReplyReaderCases, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

TEST_P(ReplyReaderCases, InOnePiece) {
  EXPECT_EQ(read_pieces({GetParam().bytes}, GetParam().limits), GetParam().shown);
}

TEST_P(ReplyReaderCases, ByteByByte) {
  EXPECT_EQ(read_pieces(cut_evenly(GetParam().bytes, 1), GetParam().limits), GetParam().shown);
}

TEST_P(ReplyReaderCases, SplitAtEveryPosition) {
  const std::string_view bytes = GetParam().bytes;
  for (std::size_t at = 1; at < bytes.size(); ++at) {
    EXPECT_EQ(read_pieces({bytes.substr(0, at), bytes.substr(at)}, GetParam().limits), GetParam().shown)
        << at;
  }
}

// Writes a random reply and shows what is to be read back.
std::string write_random(ReplyWriter& writer, std::mt19937_64& random, int depth) {
  const auto up_to = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  const bool is_resp3 = writer.protocol() == Protocol::kResp3;
  switch (up_to(depth > 0 ? 6 : 4)) {
    case 0: {
      const auto value = static_cast<std::int64_t>(random());
      writer.integer(value);
      return std::to_string(value);
    }
    case 1: {
      const std::string text(up_to(up_to(20) == 0 ? 200'000 : 30), static_cast<char>(up_to(255)));
      writer.bulk(text);
      return "'" + text + "'";
    }
    case 2:
      writer.null();
      return "null";
    case 3:
      writer.error("ERR some");
      return "-ERR some";
    case 4:
      writer.verbatim("x\r\ny");
      return is_resp3 ? "txt'x\r\ny'" : "'x\r\ny'";
    default: {
      const std::size_t n = up_to(6);
      const bool is_map = up_to(1) == 0;
      is_map ? writer.map(n) : writer.array(n);
      std::string text = is_map && is_resp3 ? "{" : "[";
      for (std::size_t i = 0; i < (is_map ? 2 * n : n); ++i) {
        text += (i > 0 ? " " : "") + write_random(writer, random, depth - 1);
      }
      return text + (is_map && is_resp3 ? "}" : "]");
    }
  }
}

TEST(ReplyReaderTest, RandomRepliesAtRandomSplitsComeOutAsTheyWentIn) {
  const char* const given = std::getenv("LOCKSLEY_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("LOCKSLEY_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    OutputBuffer out;
    ReplyWriter writer(out, round % 2 == 0 ? Protocol::kResp2 : Protocol::kResp3);
    std::string expected;
    for (int i = 0; i < 30; ++i) expected += write_random(writer, random, 4) + "\n";
    const std::string bytes = out.to_string();
    const std::size_t longest = std::size_t{1} << std::uniform_int_distribution<int>(0, 16)(random);
    ASSERT_TRUE(read_pieces(cut_randomly(bytes, longest, random), {}) == expected) << "round " << round;
  }
}

TEST(ReplyReaderTest, AnnouncedSizesAllocateNothingInAdvance) {
  for (const std::string bytes : {"$536870912\r\nab", "*2147483647\r\n:1\r\n", "%1000000000\r\n"}) {
    ReplyReader reader;
    feed(reader, bytes, [&] {
      Reply reply;
      EXPECT_EQ(reader.next(reply), ReadStatus::kNeedMore);
    });
    EXPECT_LE(reader.memory_bytes(), 128 * Limits::kKiB) << bytes;
  }
}

TEST(ReplyReaderTest, AReplyThatIsTooLargeIsRefusedBeforeItIsThere) {
  constexpr std::size_t kMost = 100'000;
  ReplyReader reader({.max_bulk_bytes = kMost, .max_reply_bytes = kMost});
  const std::string text(kMost / 2, 'x');
  feed(reader, "*1000\r\n$50000\r\n" + text + "\r\n$50000\r\n", [&] {
    Reply reply;
    EXPECT_NE(reader.next(reply), ReadStatus::kComplete);
  });
  EXPECT_EQ(reader.error_message(), "broken reply: more than 100000 bytes");
  EXPECT_LT(reader.memory_bytes(), 2 * kMost);
}

TEST(ReplyReaderTest, ALongLineIsRefusedWhetherItsEndIsThereOrNot) {
  const std::string line = "+" + std::string(65'537, 'x');
  const std::string refusal = "broken reply: a line of more than 64 KiB";
  EXPECT_EQ(read_pieces({line}, {}), refusal);
  const std::string whole = line + "\r\n";
  EXPECT_EQ(read_pieces({whole}, {}), refusal);
  EXPECT_EQ(read_pieces(cut_evenly(whole, 4'096), {}), refusal);
}

TEST(ReplyReaderTest, TheLongestLineThatIsAllowedIsReadInWhateverPieces) {
  const std::string text(65'536, 'x');
  const std::string line = "+" + text + "\r\n";
  for (const std::size_t piece : {std::size_t{1'000}, line.size() - 1, line.size()}) {
    EXPECT_TRUE(read_pieces(cut_evenly(line, piece), {}) == "+" + text + "\n") << piece;
  }
}

std::string results_bytes(std::uint64_t cursor, std::uint64_t rows, std::size_t output_bytes) {
  OutputBuffer out;
  ReplyWriter writer(out, Protocol::kResp3);
  writer.array(2);
  writer.bulk_integer(static_cast<std::int64_t>(cursor));
  writer.array(rows);
  for (std::uint64_t i = 0; i < rows; ++i) {
    writer.result_row(i * 1000, i % 3 == 0 ? "error" : "ok",
                      std::string(output_bytes, static_cast<char>('a' + i % 26)));
  }
  return out.to_string();
}

struct Rows {
  ResultsReply results;
  std::vector<std::string> rows;
  ReadStatus last = ReadStatus::kNeedMore;
};

Rows read_rows(ReplyReader& reader, const std::vector<std::string_view>& pieces) {
  Rows found;
  for (std::string_view piece : pieces) {
    feed(reader, piece, [&] {
      if (found.last != ReadStatus::kNeedMore) return;
      found.last = reader.next_results(found.results, [&](std::uint64_t index, std::string_view status,
                                                          std::string_view output) {
        found.rows.push_back(std::to_string(index) + " " + std::string(status) + " " + std::string(output));
      });
    });
  }
  return found;
}

TEST(ReplyReaderResultsTest, RowsAreTheSameHoweverTheyArrive) {
  const std::string bytes = results_bytes(17, 5, 3);
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    ReplyReader reader;
    const Rows found = read_rows(reader, cut_evenly(bytes, piece));
    ASSERT_EQ(found.last, ReadStatus::kComplete) << reader.error_message();
    EXPECT_EQ(found.results.cursor, 17u);
    EXPECT_EQ(found.results.rows, 5u);
    EXPECT_EQ(found.rows, (std::vector<std::string>{"0 error aaa", "1000 ok bbb", "2000 ok ccc",
                                                    "3000 error ddd", "4000 ok eee"}));
  }
}

// Numbers and outputs of any length, whole or in pieces.
TEST(ReplyReaderResultsTest, RowsThatAreOkAreTheSameWhateverTheirLength) {
  std::string bytes = "*2\r\n$1\r\n0\r\n*60\r\n";
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < 60; ++i) {
    const std::string index = i == 0 ? "0" : std::string("123456789012345678", i % 18 + 1);
    std::string output;
    for (std::size_t at = 0; at < i; ++at) output += static_cast<char>('0' + at);
    bytes += "*3\r\n:" + index + "\r\n$2\r\nok\r\n$" + std::to_string(i) + "\r\n" + output + "\r\n";
    rows.push_back(index + " ok " + output);
  }
  for (std::size_t piece = 1; piece <= bytes.size(); piece += piece < 200 ? 1 : 97) {
    ReplyReader reader;
    const Rows found = read_rows(reader, cut_evenly(bytes, piece));
    ASSERT_EQ(found.last, ReadStatus::kComplete) << reader.error_message();
    ASSERT_EQ(found.rows, rows) << piece;
  }
}

// What follows a row does not hide what is wrong with it.
TEST(ReplyReaderResultsTest, ABrokenRowIsAnErrorWhateverFollows) {
  const std::string more(100, 'x');
  for (const std::string row : {":\r\n$2\r\nok\r\n$1\r\na\r\n", ":1\r\n$2\r\nok\r\n$\r\na\r\n",
                                ":1\r\n$2\r\nok\r\n$1\r\nab\r\n", ":1\r\n$2\r\nok\r\n$1\r\na\rb",
                                ":1\r\n$2\r\nok\r\n$1\n\na\r\n", ":1\r\n$2\r\nok\r\n$9\r\n123456789\r\n",
                                ":1x\r\n$2\r\nok\r\n$1\r\na\r\n", ":1\r\n$2\r\nokay$1\r\na\r\n"}) {
    ReplyReader reader({.max_bulk_bytes = 8});
    const std::string bytes = "*2\r\n$1\r\n0\r\n*1\r\n*3\r\n" + row + more;
    const Rows found = read_rows(reader, {bytes});
    EXPECT_EQ(found.last, ReadStatus::kError) << row;
    EXPECT_TRUE(found.rows.empty()) << row;
  }
}

TEST(ReplyReaderResultsTest, ManyAndLargeRows) {
  for (const auto& [rows, bytes] : {std::pair<std::uint64_t, std::size_t>{100'000, 32}, {20, 1'000'000}}) {
    ReplyReader reader;
    const std::string text = results_bytes(0, rows, bytes);
    const Rows found = read_rows(reader, cut_evenly(text, 50'000));
    EXPECT_EQ(found.last, ReadStatus::kComplete);
    EXPECT_EQ(found.rows.size(), rows);
    EXPECT_EQ(found.results.cursor, 0u);
    EXPECT_LE(reader.memory_bytes(), 8 * Limits::kMiB) << "rows are not kept";
  }
}

TEST(ReplyReaderResultsTest, NoRowsErrorsAndWhatFollowsInThePipeline) {
  ReplyReader reader;
  Rows found = read_rows(reader, {"*2\r\n$1\r\n4\r\n*0\r\n-NOBATCH no batch 'x'\r\n+OK\r\n"});
  EXPECT_EQ(found.last, ReadStatus::kComplete);
  EXPECT_EQ(found.results.cursor, 4u);
  ResultsReply results;
  const auto no_row = [](std::uint64_t, std::string_view, std::string_view) { FAIL(); };
  ASSERT_EQ(reader.next_results(results, no_row), ReadStatus::kComplete);
  EXPECT_TRUE(results.is_error);
  EXPECT_EQ(results.error, "NOBATCH no batch 'x'");
  Reply reply;
  ASSERT_EQ(reader.next(reply), ReadStatus::kComplete);
  EXPECT_EQ(reply.text, "OK");
}

TEST(ReplyReaderResultsTest, AnotherShapeIsAnErrorAndNeverARow) {
  for (const std::string bytes :
       {"+OK\r\n", "*3\r\n:1\r\n", "*2\r\n:0\r\n", "*2\r\n$1\r\n0\r\n*1\r\n*2\r\n",
        "*2\r\n$1\r\n0\r\n*1\r\n*3\r\n+x\r\n", "*2\r\n$2\r\n-1\r\n*0\r\n", "*2\r\n$1\r\nx\r\n*0\r\n",
        "*2\r\n$1\r\n1\r\n*-1\r\n", "*2\r\n$1\r\n0\r\n*1\r\n*3\r\n:1\r\n$2\r\nok\r\n:5\r\n"}) {
    ReplyReader reader;
    const Rows found = read_rows(reader, {bytes});
    EXPECT_EQ(found.last, ReadStatus::kError) << bytes;
    EXPECT_TRUE(found.rows.empty());
    EXPECT_FALSE(reader.error_message().empty());
  }
}

TEST(ReplyTest, FindsKeysInMapsOfBothVersionsAndReadsNumbersFromStrings) {
  for (const std::string bytes :
       {"%2\r\n+a\r\n:1\r\n$1\r\nb\r\n$2\r\n-5\r\n", "*4\r\n+a\r\n:1\r\n$1\r\nb\r\n$2\r\n-5\r\n"}) {
    ReplyReader reader;
    Reply reply;
    feed(reader, bytes, [&] { ASSERT_EQ(reader.next(reply), ReadStatus::kComplete); });
    ASSERT_NE(reply.find("b"), nullptr);
    EXPECT_EQ(reply.find("b")->to_integer(), -5);
    EXPECT_EQ(reply.find("b")->to_real(), -5.0);
    EXPECT_EQ(reply.find("a")->to_integer(), 1);
    EXPECT_EQ(reply.find("1"), nullptr) << "a value is no key";
    EXPECT_EQ(reply.to_integer(), std::nullopt);
  }
  Reply error;
  error.type = Reply::Type::kError;
  error.text = "NOBATCH no batch 'x'";
  EXPECT_EQ(error.error_code(), "NOBATCH");
}

}  // namespace
}  // namespace locksley::proto::reply_reader_test
