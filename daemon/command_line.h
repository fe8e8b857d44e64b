#pragma once

#include <optional>
#include <string>

namespace locksley::daemon {

struct CommandLine {
  std::string config_file;  // empty: all defaults
  bool check_config = false;
  bool repair = false;

  // Not for people: how the daemon starts other processes.
  bool keeper = false;        // that which keeps the others, of daemon/process
  std::string keeper_users;   // as whom alone it may run them; empty: no matter
  std::string plugin_worker;  // not empty: the file of a plugin, whose jobs the process is to run
  std::string handler;        // for which it does
  bool check = false;         // it only tries the plugin out
};

// What was asked for; or, if there is nothing to run, what to exit with: help or version were printed, or an
// error was.
struct ParsedCommandLine {
  std::optional<CommandLine> command_line;
  int exit_code = 0;
};
ParsedCommandLine parse_command_line(int argc, char** argv, const std::string& version);

}  // namespace locksley::daemon
