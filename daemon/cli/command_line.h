// The parser of `locksley`'s command line: words to the structs of options.h. Called once, by
// main's thread.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "daemon/cli/context/options.h"

namespace locksley::cli {

// What to print instead of running a command: the requested help (exit 0, standard output), or the
// error of a wrong command line (exit 2, for `exec` 255, standard error).
struct CommandLineEnd {
  int exit_code;
  std::string text;
};

// Parses the arguments, without the program's name. Reads no file and prints nothing.
std::expected<CommandLine, CommandLineEnd> parse_command_line(std::vector<std::string> arguments);

}  // namespace locksley::cli
