// A plugin in a process of its own: `locksleyd --plugin-worker=FILE --handler=NAME`. The daemon
// treats that program like any other worker.
#pragma once

#include <string>

#include "daemon/base/plugin/plugin_file.h"

namespace locksley::daemon {

// Runs the plugin's jobs from standard input, and answers on standard output, until the input ends.
// Returns the exit code of the process. This is its only thread, besides those of the plugin.
//
// For the plugin, standard input is empty, and its output goes to standard error. SIGTERM ends the
// process while a job runs. Between jobs SIGTERM is blocked: the daemon also closes the input, and
// then the plugin is torn down.
int run_plugin_worker(const std::string& file, const std::string& handler);

// Checks that the plugin can be loaded, initialised and torn down. Writes its description to
// standard output, or a sentence that says why not; returns the exit code.
int check_plugin(const std::string& file, const std::string& handler);

// The worker's loop on given descriptors: reads arrays [payload, index, batch-id], and writes a
// bulk string or a blob error for each. It writes each answer before the next job begins, because
// the daemon must know which job crashed or took too long. Leaves SIGTERM blocked. Returns an exit
// code; if the code is not 0, a line on standard error says why.
int serve_plugin(const PluginFile& plugin, int requests, int answers);

}  // namespace locksley::daemon
