// Numbers and texts as bytes, and bytes that are none.
#include "daemon/store/codec.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

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

TEST(StoreCodecTest, ANumberThatDoesNotEndIsDamage) {
  const std::string endless(11, '\x80');
  Decoder from(endless);
  EXPECT_EQ(from.number(), 0U);
  EXPECT_TRUE(from.is_damaged());
}

}  // namespace
}  // namespace locksley::daemon
