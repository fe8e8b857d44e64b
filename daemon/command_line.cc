#include "daemon/command_line.h"

#include <CLI/CLI.hpp>

#include "daemon/exit_codes.h"

namespace locksley::daemon {

ParsedCommandLine parse_command_line(int argc, char** argv, const std::string& version) {
  CommandLine command_line;
  CLI::App app("Locksley: runs batches of jobs, and is fair about it", "locksleyd");
  app.add_option("--config", command_line.config_file, "Configuration file (YAML); none: all defaults")
      ->type_name("FILE");
  app.add_flag("--check-config", command_line.check_config,
               "Validate the configuration, print what would be in force, and exit");
  app.add_flag("--repair", command_line.repair,
               "Make what can still be read of a damaged store a sound one, and exit");
  // How the daemon starts other processes.
  app.add_flag("--keeper", command_line.keeper)->group("");
  app.add_option("--keeper-users", command_line.keeper_users)->group("");
  app.add_option("--plugin-worker", command_line.plugin_worker)->group("");
  app.add_option("--handler", command_line.handler)->group("");
  app.add_flag("--check", command_line.check)->group("");
  app.set_version_flag("--version", "locksleyd " + version);
  app.footer(
      "Signals: TERM or INT drains and ends, a second one ends at once; HUP reads the configuration again.\n"
      "Ends with 0 after a clean drain, 2: wrong options, 69: an address cannot be listened on, or the "
      "store\n"
      "cannot be opened, 75: jobs were left when the time to drain ran out, 78: the configuration is wrong,\n"
      "143: ended at once.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_answer = app.exit(error) == 0;
    return {{}, is_answer ? kExitOk : kExitUsage};
  }
  return {command_line, kExitOk};
}

}  // namespace locksley::daemon
