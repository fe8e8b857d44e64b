#include "config/problem.h"

#include <gtest/gtest.h>

namespace locksley::config {
namespace {

TEST(ProblemTest, TextNamesFilePositionAndKey) {
  EXPECT_EQ(to_string(Problem{"locksley.yaml", 12, 5, "scheduling.quantum",
                              "expected a duration such as 10ms, found \"ten\"", ""}),
            "locksley.yaml:12:5: scheduling.quantum: expected a duration such as 10ms, found \"ten\"");
}

TEST(ProblemTest, TextEndsWithTheSuggestion) {
  EXPECT_EQ(to_string(Problem{"f", 1, 2, "a.b", "unknown key", "c"}),
            "f:1:2: a.b: unknown key; did you mean \"c\"?");
}

TEST(ProblemTest, AWholeFileHasNoPosition) {
  EXPECT_EQ(to_string(Problem{"f", 0, 0, "", "cannot be opened", ""}), "f: cannot be opened");
}

TEST(ProblemTest, AConfigBuiltInCodeHasNoFile) {
  EXPECT_EQ(to_string(Problem{"", 0, 0, "pool.workers", "expected less", ""}), "pool.workers: expected less");
}

TEST(ProblemTest, QuotedTextIsOneShortLine) {
  EXPECT_EQ(in_quotes("a\nb\x1B"), "\"a\\x0ab\\x1b\"");
  const std::string quote = in_quotes(std::string(1'000'000, 'x'));
  EXPECT_LT(quote.size(), 80U);
  EXPECT_TRUE(quote.ends_with("...\""));
}

TEST(ProblemTest, QuotedTextIsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xE2\x82\xAC";
  EXPECT_EQ(in_quotes("x" + text).size() % 3, (1 + 2 + 3) % 3);  // x, quotes and dots, whole characters
  EXPECT_EQ(in_quotes(text).size() % 3, (2 + 3) % 3);
}

TEST(ProblemTest, AHostileKeyIsEscaped) {
  EXPECT_EQ(to_string(Problem{"f", 1, 1, "a\nb", "unknown key", ""}), "f:1:1: a\\x0ab: unknown key");
}

}  // namespace
}  // namespace locksley::config
