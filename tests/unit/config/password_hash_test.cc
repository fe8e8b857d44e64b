#include "config/password_hash.h"

#include <gtest/gtest.h>

#include <string>

namespace locksley::config {
namespace {

constexpr std::string_view kSalt = "c2FsdHNhbHQ";             // 8 bytes
constexpr std::string_view kHash = "aGFzaGhhc2hoYXNoaGFzaA";  // 16 bytes

std::string hash(std::string_view costs, std::string_view salt = kSalt, std::string_view digest = kHash) {
  return "$argon2id$v=19$" + std::string(costs) + "$" + std::string(salt) + "$" + std::string(digest);
}

// What was found; "" if it is a hash.
std::string fault(const std::string& text) { return fault_of_hash(text).value_or(""); }

TEST(PasswordHashTest, WhatToolsPrintIsAHash) {
  EXPECT_EQ(fault(hash("m=19456,t=2,p=1")), "");
  EXPECT_EQ(fault(hash("m=8,t=1,p=1")), "");
  // Of the command argon2, and of Python's argon2-cffi.
  EXPECT_EQ(fault("$argon2id$v=19$m=1024,t=2,p=4$c29tZXNhbHQ$bAUSO8L+iAvspub8b+64US4DiPgJ79z5"), "");
  EXPECT_EQ(fault(hash("m=102400,t=2,p=8", "P7FOOl7nNZjVnu0MwLD6+g", std::string(85, '+') + "w")), "");
}

TEST(PasswordHashTest, OtherTextsAreNone) {
  const std::string costs = "m=19456,t=2,p=1";
  for (const std::string& text : {std::string(),
                                  std::string("xyzzy"),
                                  std::string("$2b$12$abcdefghijklmnopqrstuv"),
                                  hash(costs) + "$",
                                  hash(costs) + " ",
                                  " " + hash(costs),
                                  hash(costs).substr(1),
                                  hash(costs) + "=",
                                  "$argon2i" + hash(costs).substr(9),
                                  "$argon2id$v=16" + hash(costs).substr(14),
                                  "$argon2id" + hash(costs).substr(14),
                                  hash("m=19456,t=2"),
                                  hash("t=2,m=19456,p=1"),
                                  hash("m=19456,t=2,p=1,data=x"),
                                  hash("m=019456,t=2,p=1"),
                                  hash("m=,t=2,p=1"),
                                  hash("m=-1,t=2,p=1"),
                                  hash("m=+19456,t=2,p=1"),
                                  hash("m=19456, t=2,p=1"),
                                  hash("m=0,t=2,p=1"),
                                  hash("m=19456,t=0,p=1"),
                                  hash("m=19456,t=2,p=0"),
                                  hash("m=99999999999999999999999,t=2,p=1"),
                                  hash(costs, ""),
                                  hash(costs, "c2FsdHNhbA"),
                                  hash(costs, kSalt, ""),
                                  hash(costs, kSalt, "aGFzaGhhc2hoYXNoaGFz"),
                                  hash(costs, "c2FsdHNhbH-"),
                                  hash(costs, "c2FsdHNhbHR"),
                                  hash(costs, kSalt, "aGFzaGhhc2hoYXNoaGFzaB"),
                                  hash(costs, std::string(87, 'A')),
                                  hash(costs, kSalt, std::string(87, 'A')),
                                  hash(costs, kSalt, std::string(25, 'A')),
                                  std::string("$argon2id$v=19$m="),
                                  hash(costs).substr(0, hash(costs).rfind('$'))}) {
    EXPECT_EQ(fault(text), "another text") << text;
  }
}

TEST(PasswordHashTest, WhatACheckMayCostIsBounded) {
  EXPECT_EQ(fault(hash("m=262144,t=4,p=1")), "");
  EXPECT_EQ(fault(hash("m=262145,t=1,p=1")), "m=262145, more than 262144");
  EXPECT_EQ(fault(hash("m=18446744073709551615,t=18446744073709551615,p=1")),
            "m=18446744073709551615, more than 262144");
  EXPECT_EQ(fault(hash("m=64,t=64,p=1")), "");
  EXPECT_EQ(fault(hash("m=64,t=65,p=1")), "t=65, more than 64");
  EXPECT_EQ(fault(hash("m=262144,t=5,p=1")), "m * t=1310720, more than 1048576");
  EXPECT_EQ(fault(hash("m=512,t=1,p=64")), "");
  EXPECT_EQ(fault(hash("m=1024,t=1,p=65")), "p=65, more than 64");
  EXPECT_EQ(fault(hash("m=511,t=1,p=64")), "m=511, less than 8 for each lane of p");
}

}  // namespace
}  // namespace locksley::config
