#include "proto/hello.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "proto/command_reader.h"

namespace locksley::proto {
namespace {

Command command_of(const std::vector<std::string_view>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words)
    bytes += "$" + std::to_string(word.size()) + "\r\n" + std::string(word) + "\r\n";
  CommandReader reader;
  const auto space = std::as_writable_bytes(std::span(bytes));
  std::ranges::copy(space, reader.prepare(space.size()).begin());
  reader.commit(space.size());
  Command command;
  EXPECT_EQ(reader.next(command), ReadStatus::kComplete);
  return command;
}

// What HELLO with these arguments asks for, or its error.
std::string read(const std::vector<std::string_view>& words, Protocol current = Protocol::kResp2) {
  const Command command = command_of(words);
  const auto hello = parse_hello(command.arguments, current);
  if (!hello) return hello.error();
  std::string text = "RESP" + std::to_string(static_cast<int>(hello->protocol));
  if (hello->user != 0) {
    text += " user " + std::string(command.arguments[hello->user]) + " password " +
            std::string(command.arguments[hello->user + 1]);
  }
  if (hello->name) text += " name " + std::string(*hello->name);
  return text;
}

TEST(HelloTest, VersionLoginAndName) {
  EXPECT_EQ(read({"HELLO"}), "RESP2");
  EXPECT_EQ(read({"HELLO"}, Protocol::kResp3), "RESP3");
  EXPECT_EQ(read({"hello", "3"}), "RESP3");
  EXPECT_EQ(read({"HELLO", "2", "auth", "u", "p"}, Protocol::kResp3), "RESP2 user u password p");
  EXPECT_EQ(read({"HELLO", "3", "SETNAME", "n", "AUTH", "u", "p"}), "RESP3 user u password p name n");
}

TEST(HelloTest, WhatIsWrongIsSaidAsRedisDoes) {
  EXPECT_EQ(read({"HELLO", "three"}), "ERR Protocol version is not an integer or out of range");
  EXPECT_EQ(read({"HELLO", "4"}), "NOPROTO unsupported protocol version");
  EXPECT_EQ(read({"HELLO", "3", "AUTH", "u"}), "ERR Syntax error in HELLO option 'AUTH'");
  EXPECT_EQ(read({"HELLO", "3", "SETNAME"}), "ERR Syntax error in HELLO option 'SETNAME'");
  EXPECT_EQ(read({"HELLO", "3", "SETNAME", "a b"}), kBadClientName);
  const std::string long_name(257, 'x');
  EXPECT_EQ(read({"HELLO", "3", "SETNAME", long_name}),
            "ERR Client names cannot have more than 256 bytes, found 257.");
}

TEST(AuthTest, WithoutANameItIsTheDefaultUser) {
  const auto read_auth = [](const std::vector<std::string_view>& words, bool has_users) {
    const Command command = command_of(words);
    const auto auth = parse_auth(command.arguments, has_users);
    if (!auth) return auth.error();
    return std::string(auth->user) + " " + std::string(command.arguments[auth->password]);
  };
  EXPECT_EQ(read_auth({"AUTH", "p"}, true), "default p");
  EXPECT_EQ(read_auth({"AUTH", "p"}, false), kAuthWithoutUsers);
  EXPECT_EQ(read_auth({"AUTH", "u", "p"}, false), "u p");
  EXPECT_EQ(read_auth({"AUTH"}, true), "ERR wrong number of arguments for 'auth' command");
}

TEST(ClientNameTest, PrintableAsciiWithoutSpaces) {
  EXPECT_TRUE(is_client_name(""));
  EXPECT_TRUE(is_client_name("render-7!~"));
  EXPECT_TRUE(is_client_name(std::string(256, 'x')));
  EXPECT_FALSE(is_client_name(std::string(257, 'x')));
  for (const std::string_view name : {"a b", "a\n", "\x7f", "\xc3\xa4"}) EXPECT_FALSE(is_client_name(name));
}

}  // namespace
}  // namespace locksley::proto
