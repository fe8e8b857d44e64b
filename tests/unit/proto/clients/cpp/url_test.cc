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
                                                       {"ftp://h", "unknown scheme"},
                                                       {"http://h", "clients use redis://"},
                                                       {"https://h", "clients use redis://"},
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

TEST(ClientUrlTest, AListSharesUserPasswordAndTls) {
  EXPECT_EQ(parse_addresses("a:1,b,[::1]:3").value(),
            (std::vector<Address>{{.host = "a", .port = 1}, {.host = "b"}, {.host = "::1", .port = 3}}));
  EXPECT_EQ(parse_addresses("rediss://u:p%2Cq,r@a:1,b:2/0").value(),
            (std::vector<Address>{{.host = "a", .port = 1, .user = "u", .password = "p,q,r", .tls = true},
                                  {.host = "b", .port = 2, .user = "u", .password = "p,q,r", .tls = true}}));
  EXPECT_EQ(text_of(parse_addresses("redis://u:p@a:1,b:2").value()), "a:1,b:2");
}

TEST(ClientUrlTest, AListWithAMissingHostAndAListInPlaceOfOneAddressAreRefused) {
  for (const char* text : {",", "a:1,", ",a:1", "a:1,,b:2", "redis://u@a:1,"}) {
    const auto list = parse_addresses(text);
    ASSERT_FALSE(list) << text;
    EXPECT_THAT(list.error().message, HasSubstr("the host is missing")) << text;
  }
  EXPECT_THAT(parse_address("redis://u:secret@a:1,b:2").error().message,
              AllOf(HasSubstr("a:1,b:2: expected one address, found a list of 2"), Not(HasSubstr("secret"))));
}

TEST(ClientUrlTest, TextIsWhatCanBeReadBack) {
  for (const char* text : {"h:1", "[::1]:7770"}) EXPECT_EQ(parse_address(text).value().text(), text);
}

}  // namespace
}  // namespace locksley::client
