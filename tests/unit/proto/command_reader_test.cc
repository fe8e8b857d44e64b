#include "proto/command_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "proto/command_writer.h"
#include "tests/unit/proto/reader_support.h"

namespace locksley::proto {
namespace {

using Commands = std::vector<std::vector<std::string>>;
using std::string_literals::operator""s;

// One case of what stock clients and hostile peers send. The names are those of the list of
// conformance cases.
struct Case {
  std::string name;
  std::string bytes;
  Commands commands;
  std::optional<std::string> error = std::nullopt;  // behind "ERR Protocol error: "
  Limits limits = {};
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::string times(std::size_t n, std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < n; ++i) result += text;
  return result;
}

const std::string kPing = "*1\r\n$4\r\nPING\r\n";
const std::string kEcho20 = ".\xc6\xfb\xd7\x9e\x17\xc4\xf5\x88MP6\xe9\xab}\r\xef\x9f\xd0\x46"s;
const Limits kBeforeAuthentication = Limits::before_authentication();

std::vector<Case> cases() {
  return {
      {"InlineCrlf", "PING\r\n", {{"PING"}}},
      {"InlineLf", "PING\n", {{"PING"}}},
      {"InlineBlank", "\r\n\n\r\nPING\r\n", {{"PING"}}},
      {"InlineSpaces", "   PING   \r\n", {{"PING"}}},
      {"InlineOnlySpaces", "    \r\nPING\r\n", {{"PING"}}},
      {"InlineTab", "ECHO\thi\r\n", {{"ECHO", "hi"}}},
      {"InlineOtherSpace", "ECHO\v\f\r hi\f\r\n", {{"ECHO", "hi"}}},
      {"InlineCaseIsKept", "pInG\r\n*1\r\n$4\r\nping\r\n", {{"pInG"}, {"ping"}}},
      {"InlineDquote", "ECHO \"a b\"\r\n", {{"ECHO", "a b"}}},
      {"InlineEscape", "ECHO \"\\x41\\n\\\"\\\\\"\r\n", {{"ECHO", "A\n\"\\"}}},
      {"InlineEscapeAll", "ECHO \"\\r\\t\\b\\a\\q\\xZZ\\x00\"\r\n", {{"ECHO", "\r\t\b\aqxZZ\0"s}}},
      {"InlineSquote", "ECHO 'a\\'b\\n'\r\n", {{"ECHO", "a'b\\n"}}},
      {"InlineQuoteInWord", "ECHO a\"b c\"\r\n", {{"ECHO", "ab c"}}},
      {"InlineEmptyArgument", "ECHO \"\"\r\n", {{"ECHO", ""}}},
      {"InlineUnbalanced", "ECHO \"abc\r\nPING\r\n", {}, "unbalanced quotes in request"},
      {"InlineUnbalancedSingle", "ECHO 'abc\r\nPING\r\n", {}, "unbalanced quotes in request"},
      {"InlineEndsInBackslash", "ECHO \"abc\\\r\n", {}, "unbalanced quotes in request"},
      {"InlineQuoteJunk", "ECHO \"a\"b\r\n", {}, "unbalanced quotes in request"},
      {"Inline60k", "ECHO " + times(60000, "x") + "\r\n", {{"ECHO", times(60000, "x")}}},
      {"InlineTooBig", times(70000, "A"), {}, "too big inline request"},
      {"InlineTooBigWithEnd", times(70000, "A") + "\n", {}, "too big inline request"},
      {"InlineLongestThatFits", times(65536, "A") + "\n", {{times(65536, "A")}}},
      {"InlineOneTooMany", times(65537, "A") + "\n", {}, "too big inline request"},
      {"InlineNul", "\0"s + times(70000, "A") + "\n", {}, "unexpected NUL in inline request"},
      {"InlineNulInside", "PI\0NG\r\n"s, {}, "unexpected NUL in inline request"},
      {"InlineMany", times(1000, "PING\r\n"), Commands(1000, {"PING"})},
      {"MbBasic", kPing, {{"PING"}}},
      {"MbEcho", "*2\r\n$4\r\nECHO\r\n$3\r\nhey\r\n", {{"ECHO", "hey"}}},
      {"MbZero", "*0\r\n" + kPing, {{"PING"}}},
      {"MbNegative", "*-1\r\n*-10\r\n" + kPing, {{"PING"}}},
      {"MbAfterInline", "PING\r\n" + kPing + "PING\n" + kPing, {{"PING"}, {"PING"}, {"PING"}, {"PING"}}},
      {"MbTooMany", "*3000000000\r\n", {}, "invalid multibulk length"},
      {"MbIntMax", "*2147483648\r\n", {}, "invalid multibulk length"},
      {"MbI64", "*9999999999999999999999\r\n", {}, "invalid multibulk length"},
      {"MbAlpha", "*abc\r\n", {}, "invalid multibulk length"},
      {"MbEmpty", "*\r\n", {}, "invalid multibulk length"},
      {"MbLeadingZero", "*01\r\n$4\r\nPING\r\n", {}, "invalid multibulk length"},
      {"MbMinusZero", "*-0\r\n", {}, "invalid multibulk length"},
      {"MbMinusAlone", "*-\r\n", {}, "invalid multibulk length"},
      {"MbPlus", "*+1\r\n", {}, "invalid multibulk length"},
      {"MbSpace", "* 1\r\n", {}, "invalid multibulk length"},
      {"MbNoLineFeed", "*1\rx", {}, "invalid multibulk length"},
      {"MbNotDollar", "*1\r\nfoo\r\n", {}, "expected '$', got 'f'"},
      {"MbNotDollarSecond", "*2\r\n$4\r\nECHO\r\nfooz\r\n", {}, "expected '$', got 'f'"},
      {"MbCrlfArgument", "*1\r\n\r\n", {}, "expected '$', got ' '"},
      {"MbBinaryArgument", "*1\r\n\x80", {}, "expected '$', got '?'"},
      {"MbNulArgument", "*1\r\n\0"s, {}, "expected '$', got '?'"},
      {"MbIntArgument", "*1\r\n:1\r\n", {}, "expected '$', got ':'"},
      {"MbNested", "*1\r\n*1\r\n$4\r\nPING\r\n", {}, "expected '$', got '*'"},
      {"BulkNegative", "*1\r\n$-1\r\n", {}, "invalid bulk length"},
      {"BulkAlpha", "*1\r\n$abc\r\n", {}, "invalid bulk length"},
      {"BulkEmptyLength", "*1\r\n$\r\n", {}, "invalid bulk length"},
      {"BulkLeadingZero", "*1\r\n$04\r\nPING\r\n", {}, "invalid bulk length"},
      {"BulkPlus", "*1\r\n$+4\r\nPING\r\n", {}, "invalid bulk length"},
      {"BulkNoLineFeed", "*1\r\n$4\rxPING\r\n", {}, "invalid bulk length"},
      {"BulkOneDigitNoLineFeed", "*1\r\n$4\r\rPING\r\n", {}, "invalid bulk length"},
      {"BulkTwoDigitsNoLineFeed", "*1\r\n$10\r\r0123456789\r\n", {}, "invalid bulk length"},
      {"BulkOverLimit", "*2\r\n$4\r\nECHO\r\n$536870913\r\n", {}, "invalid bulk length"},
      {"Bulk2g", "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000000\r\n", {}, "invalid bulk length"},
      {"BulkI64", "*1\r\n$9223372036854775808\r\n", {}, "invalid bulk length"},
      {"BulkZero", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", {{"ECHO", ""}}},
      {"BulkBinary", "*2\r\n$4\r\nECHO\r\n$9\r\na\0\r\n\xff*1\r\n\r\n"s, {{"ECHO", "a\0\r\n\xff*1\r\n"s}}},
      {"BulkEcho20", "\r\n*2\r\n$4\r\nECHO\r\n$20\r\n" + kEcho20 + "\r\n", {{"ECHO", kEcho20}}},
      {"BulkEndIsSkippedUnseen", "*1\r\n$4\r\nPINGxx" + kPing, {{"PING"}, {"PING"}}},
      {"BulkOfThreeDigits",
       "*2\r\n$4\r\nECHO\r\n$100\r\n" + times(100, "y") + "\r\n",
       {{"ECHO", times(100, "y")}}},
      {"BulkOf99", "*2\r\n$4\r\nECHO\r\n$99\r\n" + times(99, "y") + "\r\n", {{"ECHO", times(99, "y")}}},
      {"HeaderMbLong", "*" + times(70000, "1"), {}, "invalid multibulk length"},
      {"HeaderBulkLong", "*1\r\n$" + times(70000, "1"), {}, "invalid bulk length"},
      {"StarNul", "*\0"s + times(70000, "A") + "\r\n", {}, "invalid multibulk length"},
      {"DollarNul", "*1\r\n$\0"s + times(70000, "A") + "\r\n", {}, "invalid bulk length"},
      {"ErrorStops", "*1\r\nfoo\r\n" + kPing + kPing, {}, "expected '$', got 'f'"},
      {"ErrorKeepsEarlier",
       kPing + "*2\r\n$4\r\nECHO\r\n$1\r\nk\r\n*1\r\nfoo\r\n",
       {{"PING"}, {"ECHO", "k"}},
       "expected '$', got 'f'"},
      {"PartialThenEnd", "*2\r\n$4\r\nECHO\r\n$5\r\nab", {}},
      {"Pipe2000", times(2000, kPing), Commands(2000, {"PING"})},
      {"EmptyName", "*1\r\n$0\r\n\r\n" + kPing, {{""}, {"PING"}}},
      {"TlsHello", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\r\n"s, {}, "unexpected NUL in inline request"},
      {"BeforeAuthTooManyArguments",
       "*11\r\n",
       {},
       "unauthenticated multibulk length",
       kBeforeAuthentication},
      {"BeforeAuthTenArguments",
       "*10\r\n" + times(10, "$1\r\na\r\n"),
       {std::vector<std::string>(10, "a")},
       std::nullopt,
       kBeforeAuthentication},
      {"BeforeAuthTooBigBulk", "*1\r\n$16385\r\n", {}, "unauthenticated bulk length", kBeforeAuthentication},
      {"BeforeAuthBiggestBulk",
       "*1\r\n$16384\r\n" + times(16384, "p") + "\r\n",
       {{times(16384, "p")}},
       std::nullopt,
       kBeforeAuthentication},
      {"BeforeAuthTenBiggestBulks",
       "*10\r\n" + times(10, "$16384\r\n" + times(16384, "p") + "\r\n"),
       {std::vector<std::string>(10, times(16384, "p"))},
       std::nullopt,
       kBeforeAuthentication},
      {"BeforeAuthLaterBulkTooBig",
       "*2\r\n$4\r\nAUTH\r\n$16385\r\n",
       {},
       "unauthenticated bulk length",
       kBeforeAuthentication},
      {"BeforeAuthMillionsOfArguments",
       kPing + "*2147483647\r\n",
       {{"PING"}},
       "unauthenticated multibulk length",
       kBeforeAuthentication},
      {"BeforeAuthInlineTen",
       times(10, "a ") + "\r\n",
       {std::vector<std::string>(10, "a")},
       std::nullopt,
       kBeforeAuthentication},
      {"BeforeAuthInlineEleven",
       times(11, "a ") + "\r\n",
       {},
       "unauthenticated multibulk length",
       kBeforeAuthentication},
      {"BeforeAuthInlineLongest",
       "AUTH " + times(65530, "x") + "\n",
       {{"AUTH", times(65530, "x")}},
       std::nullopt,
       kBeforeAuthentication},
      {"BeforeAuthInlineTooBig", times(65537, "A"), {}, "too big inline request", kBeforeAuthentication},
      {"BeforeAuthBulkOverAll", "*1\r\n$536870913\r\n", {}, "invalid bulk length", kBeforeAuthentication},
      {"BulkOverSmallLimit", "*1\r\n$11\r\n", {}, "invalid bulk length", {.max_bulk_bytes = 10}},
      {"ArgumentsOverSmallLimit", "*4\r\n", {}, "invalid multibulk length", {.max_arguments = 3}},
      {"CommandThatJustFits", kPing + kPing, {{"PING"}, {"PING"}}, std::nullopt, {.max_command_bytes = 14}},
      {"CommandTooBig",
       kPing + "*1\r\n$5\r\n",
       {{"PING"}},
       "too big command: more than 14 bytes",
       {.max_command_bytes = 14}},
      {"CommandTooBigByManyArguments",
       "*100\r\n" + times(100, "$1\r\na\r\n"),
       {},
       "too big command: more than 300 bytes",
       {.max_command_bytes = 300}},
  };
}

class CommandReaderCases : public testing::TestWithParam<Case> {
 protected:
  Transcript expected() const {
    Transcript transcript;
    transcript.commands = GetParam().commands;
    if (GetParam().error) transcript.error = "ERR Protocol error: " + *GetParam().error;
    return transcript;
  }
};

INSTANTIATE_TEST_SUITE_P(All, CommandReaderCases, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

TEST_P(CommandReaderCases, InOnePiece) {
  EXPECT_EQ(read_whole(GetParam().bytes, GetParam().limits), expected());
}

TEST_P(CommandReaderCases, ByteByByte) {
  EXPECT_EQ(read_pieces(cut_evenly(GetParam().bytes, 1), GetParam().limits), expected());
}

TEST_P(CommandReaderCases, SplitAtEveryPosition) {
  const std::string_view bytes = GetParam().bytes;
  // All positions of a short case; of a long one its ends, where all its framing is.
  constexpr std::size_t kEnd = 300;
  for (std::size_t at = 1; at < bytes.size(); ++at) {
    if (at == kEnd && bytes.size() > 2 * kEnd) at = bytes.size() - kEnd;
    ASSERT_EQ(read_pieces({bytes.substr(0, at), bytes.substr(at)}, GetParam().limits), expected()) << at;
  }
}

TEST(CommandReaderTest, RandomCommandsAtRandomSplitsComeOutAsTheyWentIn) {
  const char* const given = std::getenv("LOCKSLEY_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("LOCKSLEY_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  for (int round = 0; round < 30; ++round) {
    Transcript expected;
    OutputBuffer out;
    for (std::size_t i = 0; i < 40; ++i) {
      auto& command = expected.commands.emplace_back();
      CommandWriter writer(out);
      const std::size_t count = 1 + (up_to(9) == 0 ? up_to(3000) : up_to(5));
      writer.begin(count);
      for (std::size_t j = 0; j < count; ++j) {
        // Mostly short, seldom up to more than a block.
        const std::size_t scale = up_to(999);
        const std::size_t longest = scale == 0 ? 2 * CommandReader::kBlockBytes : scale < 10 ? 40'000 : 120;
        command.emplace_back(up_to(longest), static_cast<char>(up_to(255)));
        writer.argument(command.back());
      }
    }
    const std::string bytes = out.to_string();
    const std::size_t longest_piece = std::size_t{1} << up_to(20);
    const Transcript found = read_pieces(cut_randomly(bytes, longest_piece, random));
    ASSERT_EQ(found.error, std::nullopt);
    ASSERT_TRUE(found.commands == expected.commands) << "round " << round;
  }
}

TEST(CommandReaderTest, HttpIsACrossProtocolErrorInAnyCaseAndWithinAPipeline) {
  for (const std::string bytes : {"POST / HTTP/1.1\r\nPING\r\n", "post / HTTP/1.1\r\n",
                                  "Host: localhost\r\nPING\r\n", "PING\r\nhOST: x\r\nPING\r\n"}) {
    const Transcript found = read_whole(bytes);
    EXPECT_TRUE(found.is_cross_protocol) << bytes;
    EXPECT_LE(found.commands.size(), 1u) << "nothing behind it is read";
    EXPECT_EQ(read_pieces(cut_evenly(bytes, 1)), found);
  }
  const Transcript get = read_whole("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(get.commands, (Commands{{"GET", "/", "HTTP/1.1"}}))
      << "an unknown command, for the server to refuse";
  EXPECT_TRUE(get.is_cross_protocol);
}

TEST(CommandReaderTest, AnErrorStaysAndLaterBytesAreDropped) {
  CommandReader reader;
  Transcript transcript;
  read_into(reader, "*x", transcript);
  const std::size_t memory = reader.memory_bytes();
  for (int i = 0; i < 100; ++i) read_into(reader, std::string(100'000, 'A') + kPing, transcript);
  EXPECT_TRUE(transcript.commands.empty());
  EXPECT_EQ(reader.memory_bytes(), memory);
  EXPECT_EQ(reader.buffered_bytes(), 0u);
}

TEST(CommandReaderTest, NewLimitsHoldForTheNextCommandOfAPipeline) {
  CommandReader reader(Limits::before_authentication());
  Command command;
  const std::string big = "*12\r\n" + times(12, "$1\r\na\r\n");
  std::size_t commands = 0;
  feed(reader, "AUTH secret\r\n" + big, [&] {
    while (reader.next(command) == ReadStatus::kComplete) {
      ++commands;
      reader.set_limits({});
    }
  });
  EXPECT_EQ(commands, 2u);
  EXPECT_EQ(command.arguments.size(), 0u) << "empty after kNeedMore";
}

TEST(CommandReaderTest, LimitsThatComeBackHoldForTheNextCommandOfAPipeline) {
  CommandReader reader;
  Command command;
  feed(reader, "RESET\r\n*11\r\n", [&] {
    if (reader.next(command) == ReadStatus::kComplete) reader.set_limits(Limits::before_authentication());
  });
  EXPECT_EQ(reader.next(command), ReadStatus::kError);
  EXPECT_EQ(reader.error().message, "ERR Protocol error: unauthenticated multibulk length");
}

}  // namespace
}  // namespace locksley::proto
