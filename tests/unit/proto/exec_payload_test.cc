#include "proto/exec_payload.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace locksley::proto {
namespace {

using namespace std::string_view_literals;
using Words = std::vector<std::string>;

TEST(ExecPayloadTest, IsReadAsItWasWritten) {
  for (const std::string directory : {"", "/", "/a b"}) {
    for (const Words& variables : {Words{}, Words{"A=b"}, Words{"A=", "B==="}}) {
      for (const Words& words : {Words{"p"}, Words{"p", ""}, Words{"p", "", "-x", "a=b"}}) {
        const std::string payload = encode_exec_payload(directory, variables, words);
        const auto command = decode_exec_payload(payload);
        ASSERT_TRUE(command) << command.error();
        EXPECT_EQ(command->directory, directory);
        EXPECT_EQ(Words(command->variables.begin(), command->variables.end()), variables);
        EXPECT_EQ(Words(command->words.begin(), command->words.end()), words);
      }
    }
  }
  EXPECT_EQ(encode_exec_payload("/tmp", Words{"LANG=C"}, Words{"echo", "hello"}),
            "/tmp\0LANG=C\0\0echo\0hello"sv);
}

TEST(ExecPayloadTest, WhatIsNoCommandIsRefused) {
  for (const std::string_view payload : {""sv, "/"sv, "echo"sv, "x\0\0p"sv, "/\0"sv, "/\0\0"sv, "/\0\0\0a"sv,
                                         "/\0A\0\0p"sv, "/\0=\0\0p"sv, "/\0A=b"sv, "\0"sv, "/\0A=b\0"sv})
    EXPECT_FALSE(decode_exec_payload(payload)) << payload.size();
}

}  // namespace
}  // namespace locksley::proto
