// Plugins that run in worker processes: `handlers: {pricing: {plugin: ./libpricing.so, isolate: true}}`.
#pragma once

#include <expected>
#include <string>

#include "config/config.h"
#include "daemon/process/program.h"

namespace locksley::daemon {

// What a lane of workers needs for one.
struct IsolatedPlugin {
  Program program;          // this very program, as a worker
  std::string description;  // the plugin's own
};

// Tries the plugin in a process like those that will run its jobs, and waits for that: its code never enters
// this one. Any thread, which must not end meanwhile. The error is a sentence that names the
// configuration's key, the file and what to do.
std::expected<IsolatedPlugin, std::string> prepare_isolated_plugin(const std::string& handler,
                                                                   const config::Handler& settings);

}  // namespace locksley::daemon
