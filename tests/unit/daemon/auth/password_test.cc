// Hashes of passwords: our own, and those of other tools.
#include "daemon/auth/password.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/auth/secret.h"

namespace locksley::daemon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr HashCost kCheap{8, 1};

TEST(PasswordTest, AHashIsOfItsPasswordAndOfNoOther) {
  const std::string hash = hash_password("correct horse", kCheap).value();
  EXPECT_THAT(hash, StartsWith("$argon2id$v=19$m=8,t=1,p=1$"));
  EXPECT_TRUE(is_password_of(hash, "correct horse"));
  EXPECT_FALSE(is_password_of(hash, "correct hors"));
  EXPECT_FALSE(is_password_of(hash, "correct horse "));
  EXPECT_FALSE(is_password_of(hash, ""));
}

TEST(PasswordTest, ZeroBytesAndBytesThatAreNoTextCount) {
  const std::string password("a\0b\xff", 4);
  const std::string hash = hash_password(password, kCheap).value();
  EXPECT_TRUE(is_password_of(hash, password));
  EXPECT_FALSE(is_password_of(hash, "a"));
}

TEST(PasswordTest, TwoHashesOfOnePasswordDiffer) {
  EXPECT_NE(hash_password("x", kCheap).value(), hash_password("x", kCheap).value());
}

TEST(PasswordTest, HashesOfOtherToolsAreUnderstood) {
  // argon2 somesalt -id -t 2 -m 10 -p 4 -l 24 -e
  EXPECT_TRUE(is_password_of("$argon2id$v=19$m=1024,t=2,p=4$c29tZXNhbHQ$bAUSO8L+iAvspub8b+64US4DiPgJ79z5",
                             "correct horse"));
  // Python: argon2.PasswordHasher(time_cost=1, memory_cost=256, parallelism=8)
  EXPECT_TRUE(is_password_of("$argon2id$v=19$m=256,t=1,p=8$YJrz8jI3Ze8W67Q00tM/gA$iiR2tlTI6equnac07z93AA",
                             "correct horse"));
  // Python: argon2.PasswordHasher(time_cost=3, memory_cost=64, parallelism=1, hash_len=64,
  // salt_len=32)
  EXPECT_TRUE(
      is_password_of("$argon2id$v=19$m=64,t=3,p=1$zKIoBum2fAft2ztSGiOsMs925boxD01GnugCl9kpJyk$ojj2JLIjvXc+"
                     "XeJwTGDpUiD56hDQThJwtQ9mmu+D+FMp5xOY/MMNFuVg9f7E8yHYqLnlKthKe9yNvzVsIgKWcQ",
                     "correct horse"));
  EXPECT_FALSE(is_password_of("$argon2id$v=19$m=1024,t=2,p=4$c29tZXNhbHQ$bAUSO8L+iAvspub8b+64US4DiPgJ79z5",
                              "wrong horse"));
}

TEST(PasswordTest, EmptyAndVeryLongPasswordsAreRefused) {
  EXPECT_THAT(hash_password("", kCheap).error(), HasSubstr("empty"));
  EXPECT_TRUE(hash_password(std::string(kLongestPassword, 'x'), kCheap));
  EXPECT_THAT(hash_password(std::string(kLongestPassword + 1, 'x'), kCheap).error(),
              HasSubstr("longer than 1024 bytes"));
}

TEST(PasswordTest, WhatIsNoHashIsNobodys) {
  EXPECT_FALSE(is_password_of("", ""));
  EXPECT_FALSE(is_password_of("x", "x"));
  EXPECT_FALSE(is_password_of("$argon2id$v=19$m=8,t=1,p=1$$", ""));
}

TEST(PasswordTest, TheDecoyCostsWhatAHashDoes) {
  const std::string hash = hash_password("x").value();
  const std::size_t salt = hash.rfind('$', hash.rfind('$') - 1);
  EXPECT_EQ(decoy_hash().substr(0, salt), hash.substr(0, salt));
  EXPECT_EQ(decoy_hash().size(), hash.size());
}

TEST(SecretTest, WhatItIsMadeOfIsWiped) {
  std::string plain = "a password that is longer than a short string";
  const char* const bytes = plain.data();
  const std::size_t size = plain.size();
  Secret secret(std::move(plain));
  EXPECT_EQ(secret.view(), "a password that is longer than a short string");
  EXPECT_EQ(std::string(bytes, size), std::string(size, '\0'));
}

TEST(SecretTest, MovesLeaveNothingBehind) {
  Secret first(std::string("one"));
  Secret second(std::move(first));
  EXPECT_EQ(second.view(), "one");
  first = Secret(std::string("two"));
  EXPECT_EQ(first.view(), "two");
  second = Secret();
  EXPECT_EQ(second.view(), "");
}

}  // namespace
}  // namespace locksley::daemon
