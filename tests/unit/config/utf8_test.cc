#include "config/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace locksley::config {
namespace {

using namespace std::string_view_literals;

TEST(Utf8Test, ReadableTextHasNoFault) {
  EXPECT_EQ(find_unreadable(""), std::nullopt);
  EXPECT_EQ(find_unreadable("plain\ttext\r\n"), std::nullopt);
  EXPECT_EQ(find_unreadable("h\xC3\xA9h\xE2\x82\xAC\xF0\x9F\x98\x80"), std::nullopt);
  EXPECT_EQ(find_unreadable("\xF4\x8F\xBF\xBF"), std::nullopt);
}

TEST(Utf8Test, FaultsAreFoundWhereTheyStart) {
  EXPECT_EQ(find_unreadable("ab\xFF"), 2U);
  EXPECT_EQ(find_unreadable("ab\x80"), 2U);
  EXPECT_EQ(find_unreadable("ab\xC3"), 2U);            // cut short
  EXPECT_EQ(find_unreadable("ab\xC3(x"), 2U);          // no continuation
  EXPECT_EQ(find_unreadable("\xC0\xAF"), 0U);          // overlong
  EXPECT_EQ(find_unreadable("\xE0\x9F\xBF"), 0U);      // overlong
  EXPECT_EQ(find_unreadable("\xED\xA0\x80"), 0U);      // surrogate
  EXPECT_EQ(find_unreadable("\xF4\x90\x80\x80"), 0U);  // beyond Unicode
  EXPECT_EQ(find_unreadable("a\0b"sv), 1U);
  EXPECT_EQ(find_unreadable("a\x1B[0m"), 1U);
  EXPECT_EQ(find_unreadable("a\x7F"), 1U);
}

TEST(Utf8Test, CharactersAreCodePoints) {
  EXPECT_EQ(count_characters(""), 0U);
  EXPECT_EQ(count_characters("abc"), 3U);
  EXPECT_EQ(count_characters("h\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), 4U);
}

}  // namespace
}  // namespace locksley::config
