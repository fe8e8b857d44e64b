// A plugin in a process of its own: `locksleyd --plugin-worker=FILE --handler=NAME`, a worker as any other
// program could be one.
#pragma once

#include <string>

#include "daemon/handlers/plugin_file.h"

namespace locksley::daemon {

// Runs the plugin's jobs as they come on standard input, and answers on standard output, until the input
// ends. Returns the exit code of the process, whose only thread this is, but for those of the plugin.
//
// The plugin finds standard input empty, and what it prints goes to standard error. SIGTERM ends the process
// while a job runs; between jobs it waits, because the end of the input comes with it and lets the plugin be
// torn down.
int run_plugin_worker(const std::string& file, const std::string& handler);

// Whether the plugin can be had: starts it and takes it down again. Writes its description to standard
// output, or the sentence that says why not; returns the exit code.
int check_plugin(const std::string& file, const std::string& handler);

// The worker behind its descriptors: arrays [payload, index, batch-id] in, a bulk string or a blob error for
// each out. Each answer is written before the next job begins, because whoever reads must know which job it
// was that crashed or took too long. Leaves SIGTERM blocked. Returns an exit code, with a line to standard
// error unless that is 0.
int serve_plugin(const PluginFile& plugin, int requests, int answers);

}  // namespace locksley::daemon
