#include <gmock/gmock.h>

#include "proto/clients/cpp/url.h"

namespace locksley::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ClientUrlTest, HostAndPortAreRead) {
  EXPECT_EQ(parse_address("example.org:99"), (Address{.host = "example.org", .port = 99}));
  EXPECT_EQ(parse_address("example.org"), (Address{.host = "example.org", .port = kDefaultPort}));
  EXPECT_EQ(parse_address("[::1]:99"), (Address{.host = "::1", .port = 99}));
  EXPECT_EQ(parse_address("[::1]"), (Address{.host = "::1", .port = kDefaultPort}));
}

TEST(ClientUrlTest, UrlsAreReadWithCredentialsDecoded) {
  EXPECT_EQ(parse_address("redis://h:1/0"), (Address{.host = "h", .port = 1}));
  EXPECT_EQ(parse_address("locksley://al%40ice@h"),
            (Address{.host = "h", .port = kDefaultPort, .user = "al@ice"}));
  EXPECT_EQ(parse_address("redis://u:p%3Aw@[::1]:5/"),
            (Address{.host = "::1", .port = 5, .user = "u", .password = "p:w"}));
  EXPECT_TRUE(parse_address("rediss://h").value().tls);
  EXPECT_TRUE(parse_address("locksleys://h").value().tls);
}

TEST(ClientUrlTest, NonsenseIsRefusedWithTheReason) {
  const std::pair<const char*, const char*> cases[] = {{"", "host is missing"},
                                                       {":7770", "host is missing"},
                                                       {"h:0", "port"},
                                                       {"h:65536", "port"},
                                                       {"h:", "port"},
                                                       {"h:7x", "port"},
                                                       {"::1", "brackets"},
                                                       {"[::1", "not closed"},
                                                       {"[::1]x", "after the IPv6"},
                                                       {"http://h", "unknown scheme"},
                                                       {"redis://h/1", "database 0"},
                                                       {"redis://a%4@h", "hexadecimal"},
                                                       {"redis://a%zz@h", "hexadecimal"}};
  for (const auto& [text, reason] : cases) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().kind, ClientError::Kind::kAddress);
    EXPECT_THAT(address.error().message, HasSubstr(reason)) << text;
  }
}

TEST(ClientUrlTest, NoMessageShowsAPassword) {
  for (const char* text :
       {"redis://u:secret@h:x", "redis://u:secret@h/7", "redis://u:secret%@h", "http://u:secret@h"}) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_THAT(address.error().message, Not(HasSubstr("secret"))) << text;
  }
}

TEST(ClientUrlTest, TextIsWhatCanBeReadBack) {
  for (const char* text : {"h:1", "[::1]:7770"}) EXPECT_EQ(parse_address(text).value().text(), text);
}

}  // namespace
}  // namespace locksley::client
