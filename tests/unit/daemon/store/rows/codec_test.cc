// Numbers and texts as bytes, and bytes that are none.
#include "daemon/store/rows/codec.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/store_rows.h"

namespace locksley::daemon {
namespace {

using testing::kLargest;
using testing::kLargestSigned;
using testing::kLeastSigned;

TEST(StoreCodecTest, ExtremesOfNumbersSurvive) {
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, kLargest - 1, kLargest}) {
    std::string bytes;
    Encoder(bytes).number(number);
    Decoder from(bytes);
    EXPECT_EQ(from.number(), number);
    EXPECT_TRUE(from.is_at_end()) << number;
  }
  for (const std::int64_t number : {kLeastSigned, kLeastSigned + 1, std::int64_t{-64}, std::int64_t{-1},
                                    std::int64_t{0}, std::int64_t{63}, std::int64_t{64}, kLargestSigned}) {
    std::string bytes;
    Encoder(bytes).signed_number(number);
    Decoder from(bytes);
    EXPECT_EQ(from.signed_number(), number);
    EXPECT_TRUE(from.is_at_end()) << number;
  }
}

TEST(StoreCodecTest, AfterDamageEverythingIsNothing) {
  Decoder from(
      std::string_view("\x05"
                       "ab\x01",
                       4));
  EXPECT_EQ(from.text(), "");
  EXPECT_TRUE(from.is_damaged());
  EXPECT_EQ(from.number(), 0U);
  EXPECT_FALSE(from.flag());
  EXPECT_FALSE(from.is_at_end());
}

TEST(StoreCodecTest, RangesTakeNoMoreMemoryThanTheyNeedWhateverTheirNumberIsSaidToBe) {
  std::string bytes;
  Encoder to(bytes);
  to.number(kLargest);
  for (int i = 0; i < 10; ++i) to.number(1);
  Decoder from(bytes);
  EXPECT_LE(take_ranges(from).capacity(), 10u);
  EXPECT_TRUE(from.is_damaged());

  std::vector<IndexRange> ranges;
  for (std::uint64_t low = 0; low < 1000; low += 2) ranges.push_back({low, low + 1});
  bytes.clear();
  Encoder again(bytes);
  put_ranges(again, ranges);
  Decoder whole(bytes);
  const std::vector<IndexRange> read = take_ranges(whole);
  EXPECT_EQ(read, ranges);
  EXPECT_EQ(read.capacity(), ranges.size()) << "none is copied when the list grows";
}

TEST(StoreCodecTest, ANumberThatDoesNotEndIsDamage) {
  const std::string endless(11, '\x80');
  Decoder from(endless);
  EXPECT_EQ(from.number(), 0U);
  EXPECT_TRUE(from.is_damaged());
}

}  // namespace
}  // namespace locksley::daemon
