// The small functions on words: numbers, glob patterns, names without regard to case, quoting.

#include <gtest/gtest.h>

#include <string>

#include "proto/glob.h"
#include "proto/number.h"
#include "proto/text.h"

namespace locksley::proto {
namespace {

TEST(NumberTest, OnlyPlainDecimalsAreNumbers) {
  EXPECT_EQ(parse_int64("0"), 0);
  EXPECT_EQ(parse_int64("-1"), -1);
  EXPECT_EQ(parse_int64("9223372036854775807"), 9223372036854775807);
  EXPECT_EQ(parse_int64("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_uint64("18446744073709551615"), 18446744073709551615u);
  for (const std::string_view bad :
       {"", "-", "+1", " 1", "1 ", "01", "-0", "-01", "0x1", "1.0", "1e3", "--1"}) {
    EXPECT_EQ(parse_int64(bad), std::nullopt) << bad;
    EXPECT_EQ(parse_uint64(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_int64("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_uint64("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_uint64("-1"), std::nullopt);
}

TEST(GlobTest, MatchesAsRedisDoes) {
  const std::vector<std::tuple<std::string, std::string, bool>> cases = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "anything", true},
      {"?", "", false},
      {"?", "a", true},
      {"a?c", "abc", true},
      {"a?c", "ac", false},
      {"h*llo", "heeeello", true},
      {"h*llo", "hell", false},
      {"*.log", "a.log.log", true},
      {"a*b*c", "axxbyybzzc", true},
      {"a*b*c", "axxbyy", false},
      {"**", "x", true},
      {"h[ae]llo", "hallo", true},
      {"h[ae]llo", "hillo", false},
      {"h[^e]llo", "hallo", true},
      {"h[^e]llo", "hello", false},
      {"h[a-b]llo", "hbllo", true},
      {"h[b-a]llo", "hallo", true},
      {"h[a-b]llo", "hcllo", false},
      {"\\*", "*", true},
      {"\\*", "a", false},
      {"[\\]]", "]", true},
      {"[a", "a", true},
      {"a\\", "a\\", true},
      {"batch:*", "batch:1", true},
      {"A", "a", false},
      {"[]", "a", false},
      {"*[0-9]", "ab7", true},
      {"*a", "b", false},
      {"a*", "a", true},
  };
  for (const auto& [pattern, text, expected] : cases) {
    EXPECT_EQ(glob_match(pattern, text), expected) << pattern << " against " << text;
  }
}

TEST(GlobTest, APatternOfManyStarsTakesNoTimeToSpeakOf) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  // With a step back at every star this would take 2^200 steps and never end.
  EXPECT_FALSE(glob_match(pattern + "b", std::string(2000, 'a')));
  EXPECT_TRUE(glob_match(pattern, std::string(2000, 'a')));
}

TEST(TextTest, NamesAreEqualInAnyCaseOfAsciiAlone) {
  EXPECT_TRUE(equals_ignoring_case("SubMit", "sUBmIT"));
  EXPECT_FALSE(equals_ignoring_case("submit", "submi"));
  EXPECT_FALSE(equals_ignoring_case("@", "`"));
  EXPECT_FALSE(equals_ignoring_case("[", "{"));
}

TEST(TextTest, WhatAPeerSentIsQuotedHarmlesslyAndCut) {
  EXPECT_EQ(printable("a\r\nb\tc\x7f\xc3\xa9"), "a  b?c???");
  EXPECT_EQ(printable(std::string(1000, 'x')).size(), 128u);
  EXPECT_EQ(printable("abcdef", 3), "abc");
}

}  // namespace
}  // namespace locksley::proto
