// The payload of the handler `exec`: a command, as PROTOCOL.md has it. Plain functions: any thread,
// and nothing blocks.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace locksley::proto {

// The handler of this name, which is there if the daemon's configuration has `exec: true`.
inline constexpr std::string_view kExecHandler = "exec";

// A command to run, without a shell.
struct ExecCommand {
  std::string_view directory = {};               // working directory; empty: the daemon's
  std::vector<std::string_view> variables = {};  // NAME=value each, over those of every handler
  std::vector<std::string_view> words = {};      // the program and its arguments; at least one
};

// Views into `payload`. The error says what is wrong with it.
std::expected<ExecCommand, std::string> decode_exec_payload(std::string_view payload);

// The inverse. No text may have a NUL byte, no variable may be empty, and there is a word that is
// not empty.
std::string encode_exec_payload(std::string_view directory, std::span<const std::string> variables,
                                std::span<const std::string> words);

}  // namespace locksley::proto
