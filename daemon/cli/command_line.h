#pragma once

#include <expected>
#include <string>
#include <vector>

#include "daemon/cli/options.h"

namespace locksley::cli {

// Why there is nothing to do but to print `text` and leave: help was asked for (exit 0, standard output), or
// the command line is wrong (exit 2, standard error).
struct CommandLineEnd {
  int exit_code;
  std::string text;
};

// Reads the arguments, the program's name left out. Reads no file and prints nothing.
std::expected<CommandLine, CommandLineEnd> parse_command_line(std::vector<std::string> arguments);

}  // namespace locksley::cli
