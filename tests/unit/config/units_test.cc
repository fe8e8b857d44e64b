#include "config/units.h"

#include <gtest/gtest.h>

#include <vector>

namespace locksley::config {
namespace {

using namespace std::chrono_literals;

TEST(UnitsTest, DurationsAreReadInEveryUnit) {
  EXPECT_EQ(parse_duration("250us"), Duration{250us});
  EXPECT_EQ(parse_duration("10ms"), Duration{10ms});
  EXPECT_EQ(parse_duration("30s"), Duration{30s});
  EXPECT_EQ(parse_duration("5m"), Duration{5min});
  EXPECT_EQ(parse_duration("24h"), Duration{24h});
  EXPECT_EQ(parse_duration("3d"), Duration{72h});
  EXPECT_EQ(parse_duration("0s"), Duration{0});
}

TEST(UnitsTest, SizesAreReadInEveryUnit) {
  EXPECT_EQ(parse_bytes("0"), Bytes{0});
  EXPECT_EQ(parse_bytes("17"), Bytes{17});
  EXPECT_EQ(parse_bytes("17B"), Bytes{17});
  EXPECT_EQ(parse_bytes("64KiB"), Bytes{65'536});
  EXPECT_EQ(parse_bytes("512MiB"), mebibytes(512));
  EXPECT_EQ(parse_bytes("8GiB"), gibibytes(8));
  EXPECT_EQ(parse_bytes("2TiB"), gibibytes(2048));
  EXPECT_EQ(parse_bytes("18446744073709551615"), Bytes{~std::uint64_t{0}});
}

TEST(UnitsTest, RatesAreReadPerSecondMinuteAndHour) {
  EXPECT_EQ(parse_rate("20/s"), (Rate{20, 1s}));
  EXPECT_EQ(parse_rate("300/m"), (Rate{300, 1min}));
  EXPECT_EQ(parse_rate("5/h"), (Rate{5, 1h}));
}

TEST(UnitsTest, CountsArePlainDigits) {
  EXPECT_EQ(parse_count("0"), 0U);
  EXPECT_EQ(parse_count("42"), 42U);
  EXPECT_EQ(parse_count("18446744073709551615"), ~std::uint64_t{0});
}

TEST(UnitsTest, AnythingElseIsASyntaxFault) {
  for (const char* text : {"", "ten", "10", "10 ms", " 10ms", "10ms ", "-1s", "+1s", "1.5s", "1e3s", "ms",
                           "7w", "0", "10MS", "1s2s", "\xD9\xA3s"}) {
    const auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().fault, UnitFault::kSyntax) << text;
  }
  for (const char* text : {"", "big", "1KB", "1 KiB", "-1", "0x10", "1.5GiB", "1PiB", "KiB"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().fault, UnitFault::kSyntax) << text;
  }
  for (const char* text : {"", "20", "20/d", "/s", "20 /s", "2.5/s"}) {
    EXPECT_FALSE(parse_rate(text)) << text;
  }
  for (const char* text : {"", "-1", "+1", "1_000", "0x10", "1.0", "1e3", " 1", "one"}) {
    const auto parsed = parse_count(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().fault, UnitFault::kSyntax) << text;
  }
}

TEST(UnitsTest, LeadingZerosAreAFaultOfTheirOwn) {
  EXPECT_EQ(parse_count("017").error().fault, UnitFault::kLeadingZero);
  EXPECT_EQ(parse_count("017").error().suggestion, "17");
  EXPECT_EQ(parse_count("00").error().suggestion, "0");
  EXPECT_EQ(parse_duration("010ms").error().fault, UnitFault::kLeadingZero);
  EXPECT_EQ(parse_duration("010ms").error().suggestion, "10ms");
  EXPECT_EQ(parse_bytes("08").error().suggestion, "8");
  EXPECT_EQ(parse_rate("020/s").error().suggestion, "20/s");
}

TEST(UnitsTest, OverflowIsAFaultAndNotASmallNumber) {
  EXPECT_EQ(parse_count("18446744073709551616").error().fault, UnitFault::kTooLarge);
  EXPECT_EQ(parse_bytes("18446744073709551615KiB").error().fault, UnitFault::kTooLarge);
  EXPECT_EQ(parse_bytes("16777216TiB").error().fault, UnitFault::kTooLarge);
  EXPECT_EQ(parse_duration("9223372036854775808us").error().fault, UnitFault::kTooLarge);
  EXPECT_EQ(parse_duration("2562047789h").error().fault, UnitFault::kTooLarge);
  EXPECT_EQ(parse_duration("106751992d").error().fault, UnitFault::kTooLarge);
  EXPECT_EQ(parse_duration("9223372036854775807us"), Duration::max());
}

TEST(UnitsTest, CommonSpellingsGetASuggestion) {
  EXPECT_EQ(parse_duration("0").error().suggestion, "0s");
  EXPECT_EQ(parse_duration("10 ms").error().suggestion, "10ms");
  EXPECT_EQ(parse_duration("10MS").error().suggestion, "10ms");
  EXPECT_EQ(parse_duration("30sec").error().suggestion, "30s");
  EXPECT_EQ(parse_duration("5min").error().suggestion, "5m");
  EXPECT_EQ(parse_duration("24 hours").error().suggestion, "24h");
  EXPECT_EQ(parse_duration("7 days").error().suggestion, "7d");
  EXPECT_EQ(parse_duration("7D").error().suggestion, "7d");
  EXPECT_EQ(parse_bytes("512MB").error().suggestion, "512MiB");
  EXPECT_EQ(parse_bytes("64k").error().suggestion, "64KiB");
  EXPECT_EQ(parse_bytes("8gib").error().suggestion, "8GiB");
  EXPECT_EQ(parse_rate("20/sec").error().suggestion, "20/s");
  EXPECT_EQ(parse_duration("10").error().suggestion, "");  // the unit is unknown
  EXPECT_EQ(parse_duration("7w").error().suggestion, "");
}

TEST(UnitsTest, TextIsInTheLargestUnitThatLosesNothing) {
  EXPECT_EQ(to_string(Duration{0}), "0s");
  EXPECT_EQ(to_string(Duration{250us}), "250us");
  EXPECT_EQ(to_string(Duration{1500ms}), "1500ms");
  EXPECT_EQ(to_string(Duration{90s}), "90s");
  EXPECT_EQ(to_string(Duration{120s}), "2m");
  EXPECT_EQ(to_string(Duration{23h}), "23h");
  EXPECT_EQ(to_string(Duration{36h}), "36h");
  EXPECT_EQ(to_string(Duration{24h}), "1d");
  EXPECT_EQ(to_string(Duration{72h}), "3d");
  EXPECT_EQ(to_string(Bytes{0}), "0");
  EXPECT_EQ(to_string(Bytes{1000}), "1000");
  EXPECT_EQ(to_string(Bytes{1536}), "1536");
  EXPECT_EQ(to_string(kibibytes(1536)), "1536KiB");
  EXPECT_EQ(to_string(mebibytes(64)), "64MiB");
  EXPECT_EQ(to_string(Rate{300, 1min}), "300/m");
}

TEST(UnitsTest, EveryValueReadsBackFromItsText) {
  for (std::int64_t n : {0L, 1L, 999L, 1000L, 1001L, 60'000'000L, 3'600'000'000L, 3'600'000'001L,
                         86'400'000'000L, 86'400'000'001L, 259'200'000'000L}) {
    EXPECT_EQ(parse_duration(to_string(Duration{n})), Duration{n});
  }
  for (std::uint64_t shift = 0; shift < 64; ++shift) {
    for (const std::uint64_t n : {std::uint64_t{1} << shift, (std::uint64_t{1} << shift) - 1}) {
      EXPECT_EQ(parse_bytes(to_string(Bytes{n})), Bytes{n});
    }
  }
}

}  // namespace
}  // namespace locksley::config
