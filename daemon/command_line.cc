#include "daemon/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdint>

#include "daemon/base/decimal_numbers.h"
#include "daemon/base/exit_codes.h"

namespace locksley::daemon {
namespace {

void add_port(CLI::App& app, const std::string& name, std::optional<std::uint16_t>& into,
              const std::string& help) {
  app.add_option_function<int>(
         name, [&into](const int& port) { into = static_cast<std::uint16_t>(port); }, help)
      ->transform(decimal_numbers(0, 65'535))
      ->type_name("N");
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, char** argv, const std::string& version) {
  CommandLine command_line;
  CLI::App app("Locksley: runs batches of jobs, and is fair about it", "locksleyd");
  app.add_option("--config", command_line.config.file,
                 "Configuration file (YAML); without it all keys have their defaults")
      ->type_name("FILE");
  add_port(
      app, "--port", command_line.config.port,
      "Port for clients, 0 to 65535, instead of listen.port; 0: any free port, which the ready line names");
  add_port(app, "--http-port", command_line.config.http_port,
           "Port for the dashboard, JSON and metrics, instead of http.port; 0: any free port");
  app.add_flag("--check-config", command_line.check_config,
               "Check the configuration, print it with all defaults, and exit");
  app.add_flag("--repair", command_line.repair, "Repair a damaged store: keep what can be read, and exit");
  // An empty text is a place that is refused, not the absence of one.
  CLI::Option* const migrate_to = app.add_option_function<std::string>(
      "--migrate-to", [&](const std::string& store) { command_line.migrate_to = store; },
      "Copy the store to a PostgreSQL database (postgresql://...) or a folder (an absolute path), and exit; "
      "after an interruption, run it again to continue");
  migrate_to->type_name("STORE");
  app.add_flag("--undo-migration", command_line.undo_migration,
               "Make a migrated store usable again, as it was at the migration, and exit")
      ->excludes(migrate_to);
  // For processes that the daemon starts itself.
  app.add_flag("--work", command_line.work)->group("");
  app.add_flag("--keeper", command_line.keeper)->group("");
  app.add_option("--keeper-users", command_line.keeper_users)->group("");
  app.add_option("--plugin-worker", command_line.plugin_worker)->group("");
  app.add_option("--handler", command_line.handler)->group("");
  app.add_flag("--check", command_line.check)->group("");
  app.set_version_flag("--version", "locksleyd " + version);
  app.footer(
      "Signals: TERM or INT drains and ends, a second one ends at once; HUP reads the configuration again.\n"
      "Exit codes: 0 after a clean drain; 2: wrong options; 69: cannot listen on an address, or cannot open "
      "the\n"
      "store now; 70: an internal error; 72: the store cannot be used before an operator has mended it; 74:\n"
      "changes or results could not be written; 75: jobs were left when shutdown.drain_timeout passed; 78: "
      "the\n"
      "configuration is wrong; 143: ended at once.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_answer = app.exit(error) == 0;
    return {{}, is_answer ? kExitOk : kExitUsage};
  }
  command_line.config.is_made = command_line.work;
  return {command_line, kExitOk};
}

}  // namespace locksley::daemon
