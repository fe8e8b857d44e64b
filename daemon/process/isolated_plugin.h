// Plugins that run in worker processes: `handlers: {pricing: {plugin: ./libpricing.so, isolate:
// true}}`.
#pragma once

#include <expected>
#include <string>

#include "config/config.h"
#include "daemon/process/lane/program.h"

namespace locksley::daemon {

// An isolated plugin, ready for a lane of workers.
struct IsolatedPlugin {
  Program program;          // the daemon's own program, as a worker
  std::string description;  // the plugin's own
};

// Checks the plugin in a process like those that will run its jobs, so that the plugin's code never
// enters this process. Any thread; blocks until that process has ended, two minutes at most, and
// the thread must not end before. `users` as in Program::make(); the process of the check is a
// child of this process, not of the keeper. The error is a sentence that names the configuration's
// key, the file and what to do.
std::expected<IsolatedPlugin, std::string> prepare_isolated_plugin(const std::string& handler,
                                                                   const config::Handler& settings,
                                                                   const KeeperUsers& users);

}  // namespace locksley::daemon
