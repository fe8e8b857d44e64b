// The options of `locksleyd`. Read once by main(), before any other thread starts.
#pragma once

#include <optional>
#include <string>

#include "daemon/config_source.h"

namespace locksley::daemon {

// What the process is to do.
struct CommandLine {
  ConfigSource config;  // --config, --port, --http-port
  bool check_config = false;
  bool repair = false;
  std::optional<std::string> migrate_to;  // the process copies the store to this place, and ends
  bool undo_migration = false;

  // For processes that the daemon and `locksley` start themselves; not shown in --help.
  bool work = false;          // run jobs of the upstream alone, without ports and store
  bool keeper = false;        // the keeper of daemon/process
  std::string keeper_users;   // the users as whom alone it may run programs; empty: any
  std::string plugin_worker;  // not empty: the process runs the jobs of this plugin file
  std::string handler;        // the handler for which it does
  bool check = false;         // it only loads the plugin and exits
};

// The options; or, if help, the version or an error was printed instead, the exit code.
struct ParsedCommandLine {
  std::optional<CommandLine> command_line;
  int exit_code = 0;
};
ParsedCommandLine parse_command_line(int argc, char** argv, const std::string& version);

}  // namespace locksley::daemon
