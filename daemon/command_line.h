#pragma once

#include <optional>
#include <string>

namespace locksley::daemon {

struct CommandLine {
  std::string config_file;  // empty: all defaults
  bool check_config = false;
  bool repair = false;
  bool keeper = false;  // not for people: this is the process that keeps the others, of daemon/process
};

// What was asked for; or, if there is nothing to run, what to exit with: help or version were printed, or an
// error was.
struct ParsedCommandLine {
  std::optional<CommandLine> command_line;
  int exit_code = 0;
};
ParsedCommandLine parse_command_line(int argc, char** argv, const std::string& version);

}  // namespace locksley::daemon
