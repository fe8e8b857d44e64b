#include "core/batch/payload.h"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

namespace locksley {
namespace {

std::vector<std::string> fetch(PayloadSource& source, std::uint64_t first, std::size_t count) {
  std::vector<std::string_view> views(count);
  std::string scratch;
  views.resize(source.fetch(first, views, scratch));
  return {views.begin(), views.end()};
}

TEST(RangePayloadsTest, AreTheDecimalsFromLowOn) {
  RangePayloads payloads(-2);
  EXPECT_THAT(fetch(payloads, 0, 4), ::testing::ElementsAre("-2", "-1", "0", "1"));
  EXPECT_THAT(fetch(payloads, 1'000'000'000'000, 1), ::testing::ElementsAre("999999999998"));
}

TEST(RangePayloadsTest, OneFetchOfLongPayloadsGivesFewerThanAsked) {
  const std::string pattern(PayloadSource::kScratchBytes / 4, 'x');
  RangePayloads payloads(0, pattern + "{}");
  EXPECT_LE(fetch(payloads, 0, 256).size(), 4U);
  EXPECT_THAT(fetch(payloads, 7, 1), ::testing::ElementsAre(pattern + "7"));
  RangePayloads huge(0, std::string(2 * PayloadSource::kScratchBytes, 'x'));
  EXPECT_EQ(fetch(huge, 0, 256).size(), 1U) << "always one";
}

TEST(RangePayloadsTest, AreRightWhereTheNumberOfDigitsChanges) {
  for (const std::int64_t low : {-1'111L, 0L, 7L, 995L, 99'990L, 999'999'999'999'000L}) {
    RangePayloads payloads(low);
    std::vector<std::string> expected;
    for (std::int64_t i = 0; i < 2'000; ++i) expected.push_back(std::to_string(low + i));
    EXPECT_THAT(fetch(payloads, 0, 2'000), ::testing::ElementsAreArray(expected));
  }
}

TEST(RangePayloadsTest, ReachBothEndsOfTheSigned64BitNumbers) {
  RangePayloads payloads(std::numeric_limits<std::int64_t>::min());
  EXPECT_THAT(fetch(payloads, 0, 1), ::testing::ElementsAre("-9223372036854775808"));
  EXPECT_THAT(fetch(payloads, ~std::uint64_t{0}, 1), ::testing::ElementsAre("9223372036854775807"));
}

TEST(RangePayloadsTest, ReplaceEveryPairOfBracesOfAPattern) {
  RangePayloads payloads(9, "<{}>{}");
  EXPECT_THAT(fetch(payloads, 0, 3), ::testing::ElementsAre("<9>9", "<10>10", "<11>11"));
  RangePayloads fixed(0, "always {the same}");
  EXPECT_THAT(fetch(fixed, 5, 2), ::testing::ElementsAre("always {the same}", "always {the same}"));
  RangePayloads nothing(0, "");
  EXPECT_THAT(fetch(nothing, 0, 2), ::testing::ElementsAre("", ""));
}

TEST(RangePayloadsTest, APayloadInPartsIsTheSameWhereverThePartsEnd) {
  for (const std::string pattern : {"<{}>{}", "{}{}{}", "{{}}{", "{", "", "none", "}{"}) {
    RangePayloads payloads(9, pattern);
    for (const std::size_t most : {2U, 3U, 4U, 100U}) {
      std::string payload;
      std::size_t from = 0;
      while (!payloads.append_part(1, from, most, payload)) ASSERT_LT(from, pattern.size());
      EXPECT_EQ(payload, fetch(payloads, 1, 1).front()) << pattern << " in parts of " << most;
    }
  }
  std::string decimal;
  std::size_t from = 0;
  EXPECT_TRUE(RangePayloads(-3).append_part(1, from, 2, decimal));
  EXPECT_EQ(decimal, "-2");
}

TEST(RangePayloadsTest, CostTheSameMemoryForAnyNumberOfJobs) {
  EXPECT_LE(RangePayloads(0).memory_bytes(), 128u);
  EXPECT_GE(RangePayloads(0).memory_bytes(), sizeof(RangePayloads));
  const RangePayloads patterned(0, std::string(1000, 'x'));
  EXPECT_GE(patterned.memory_bytes(), sizeof(RangePayloads) + 1000);
  EXPECT_LE(patterned.memory_bytes(), sizeof(RangePayloads) + 1100);
}

TEST(StringPayloadsTest, AreWhatWasGiven) {
  StringPayloads payloads({"a", "", std::string("\0b", 2)});
  EXPECT_THAT(fetch(payloads, 0, 3), ::testing::ElementsAre("a", "", std::string("\0b", 2)));
  EXPECT_EQ(payloads.memory_bytes(), 3 * sizeof(std::string) + 3);
}

}  // namespace
}  // namespace locksley
