// The parameters of a target.
#include "daemon/http/query.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace locksley::daemon {
namespace {

constexpr std::array<std::string_view, 3> kKnown = {"state", "match", "count"};

TEST(PercentTest, DecodesBytesAndRefusesBrokenOnes) {
  EXPECT_EQ(percent_decoded("a%2Fb%2f%C3%A4+"), "a/b/\xc3\xa4+");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
  EXPECT_EQ(percent_decoded("%2525"), "%25");
  for (const char* broken : {"%", "%2", "%zz", "%2 ", "% 2", "%-1", "%+1", "a%"}) {
    EXPECT_EQ(percent_decoded(broken), std::nullopt) << broken;
  }
}

TEST(QueryTest, HasItsParametersDecoded) {
  const auto query = Query::parse("state=active&match=a%26b+c%2B=d&count=", kKnown);
  ASSERT_TRUE(query) << query.error();
  EXPECT_EQ(*query->find("state"), "active");
  EXPECT_EQ(*query->find("match"), "a&b c+=d");
  EXPECT_EQ(*query->find("count"), "");
  EXPECT_TRUE(Query::parse("", kKnown));
  EXPECT_TRUE(Query::parse("", {}));
  EXPECT_EQ(Query::parse("", kKnown)->find("state"), nullptr);
}

TEST(QueryTest, RefusesWhatItDoesNotKnow) {
  for (const char* query :
       {"other=1", "state=a&state=b", "state=%", "&", "State=a", "=a", "state=a&&match=b"}) {
    EXPECT_FALSE(Query::parse(query, kKnown)) << query;
  }
  EXPECT_FALSE(Query::parse("state=a", {}));
}

TEST(QueryTest, NumbersAreDigitsWithinTheirRange) {
  const auto number = [](const std::string& text) {
    return Query::parse("count=" + text, kKnown)->number("count", {1, 200, 50});
  };
  EXPECT_EQ(number("1"), 1u);
  EXPECT_EQ(number("200"), 200u);
  EXPECT_EQ(Query::parse("", kKnown)->number("count", {1, 200, 50}), 50u);
  for (const char* wrong : {"", "0", "201", "-1", "+1", "1x", "%201", "1.5", "99999999999999999999999"}) {
    EXPECT_FALSE(number(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace locksley::daemon
