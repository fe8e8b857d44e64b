// The field Authorization, and files with tokens.
#include "daemon/auth/authorization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "daemon/auth/token.h"

namespace locksley::daemon {
namespace {

using testing::HasSubstr;
using Scheme = HttpCredentials::Scheme;

TEST(AuthorizationTest, BasicHasAUserAndAPassword) {
  const auto given = parse_authorization("Basic YWxpY2U6Y29ycmVjdCBob3JzZQ==");
  ASSERT_TRUE(given);
  EXPECT_EQ(given->scheme, Scheme::kBasic);
  EXPECT_EQ(given->user, "alice");
  EXPECT_EQ(given->secret.view(), "correct horse");
}

TEST(AuthorizationTest, TheFirstColonEndsTheName) {
  const auto given = parse_authorization("basic   YTpiOmM=");
  ASSERT_TRUE(given);
  EXPECT_EQ(given->user, "a");
  EXPECT_EQ(given->secret.view(), "b:c");
}

TEST(AuthorizationTest, NameAndPasswordAreAnyBytesAndMayBeEmpty) {
  EXPECT_EQ(parse_authorization("Basic Og==")->user, "");
  EXPECT_EQ(parse_authorization("Basic Og==")->secret.view(), "");
  EXPECT_EQ(parse_authorization("Basic AP86AP8=")->user, std::string("\0\xff", 2));
  EXPECT_EQ(parse_authorization("Basic AP86AP8=")->secret.view(), std::string("\0\xff", 2));
}

TEST(AuthorizationTest, BearerHasAToken) {
  const auto given = parse_authorization("BEARER abc-._~+/=");
  ASSERT_TRUE(given);
  EXPECT_EQ(given->scheme, Scheme::kBearer);
  EXPECT_EQ(given->secret.view(), "abc-._~+/=");
}

TEST(AuthorizationTest, GarbageIsNothing) {
  for (const char* field : {"",
                            " ",
                            "Basic",
                            "Basic ",
                            "BasicYTpi",
                            "Basic YTpi YTpi",
                            "Basic YTpi,",
                            "Basic YTp",
                            "Basic YTpi=",
                            "Basic YTpi====",
                            "Basic =",
                            "Basic YWxpY2U=" /* no colon */,
                            "Basic YTpi\tYTpi",
                            "Basic Y_pi",
                            "Basic Y-pi",
                            "Basic \xff\xff\xff\xff",
                            "Bearer",
                            "Bearer ",
                            "Bearer a b",
                            "Bearer \"a\"",
                            "Digest username=\"a\"",
                            "Negotiate YTpi",
                            "Basi YTpi",
                            "Basicc YTpi",
                            ":",
                            "=",
                            "YTpi",
                            " Basic YTpi"}) {
    EXPECT_FALSE(parse_authorization(field)) << field;
  }
  EXPECT_TRUE(parse_authorization("Basic YTpi"));
}

class TokenTest : public testing::Test {
 protected:
  // Returns the token, or the error.
  std::string read(const std::string& content, mode_t mode = 0600) {
    std::ofstream(file_) << content;
    ::chmod(file_.c_str(), mode);
    const auto token = read_token(file_);
    return token ? std::string(token->view()) : token.error();
  }

  const std::string file_ = testing::TempDir() + ("auth_token_test" + std::to_string(::getpid()));
};

TEST_F(TokenTest, ItIsTheFileWithoutTheSpaceAtItsEnd) {
  EXPECT_EQ(read("0123456789abcdef"), "0123456789abcdef");
  EXPECT_EQ(read("0123456789abcdef \r\n\n"), "0123456789abcdef");
  EXPECT_EQ(read("0123456789abcdef", 0440), "0123456789abcdef");
  EXPECT_EQ(read(std::string(kLongestToken, 'x')), std::string(kLongestToken, 'x'));
}

TEST_F(TokenTest, WhatIsNoTokenIsAnErrorThatSaysWhatToDo) {
  EXPECT_THAT(read(""), HasSubstr(file_ + ": it holds no token; `openssl rand -hex 32` makes one"));
  EXPECT_THAT(read("\n"), HasSubstr("it holds no token"));
  EXPECT_THAT(read("0123456789abcde"), HasSubstr("expected 16 characters at least, found 15"));
  EXPECT_THAT(read(std::string(kLongestToken + 1, 'x')), HasSubstr("expected 4096 characters at most"));
  EXPECT_THAT(read("0123456789 abcdef"), HasSubstr("found other characters"));
  EXPECT_THAT(read("0123456789abcdef\nmore"), HasSubstr("found other characters"));
  EXPECT_THAT(read("0123456789abcdef", 0644), HasSubstr("every user of this machine can read or change it"));
  EXPECT_THAT(read("0123456789abcdef", 0602), HasSubstr("every user of this machine can read or change it"));
  EXPECT_THAT(read_token(testing::TempDir()).error(), HasSubstr("something else"));
  EXPECT_THAT(read_token(file_ + ".none").error(), HasSubstr("No such file"));
}

TEST_F(TokenTest, OnlyTheSameIsTheSame) {
  const Secret token(std::string("0123456789abcdef"));
  EXPECT_TRUE(is_same(token, "0123456789abcdef"));
  EXPECT_FALSE(is_same(token, "0123456789abcdeg"));
  EXPECT_FALSE(is_same(token, "0123456789abcde"));
  EXPECT_FALSE(is_same(token, "0123456789abcdef0"));
  EXPECT_FALSE(is_same(token, ""));
}

}  // namespace
}  // namespace locksley::daemon
