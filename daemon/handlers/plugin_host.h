// Runs jobs of plugins on the pool: the host's table of core/plugin.h, over core/tasks/context.h.
#pragma once

#include <string_view>

#include "core/plugin.h"
#include "core/tasks/context.h"

namespace locksley::daemon {

// Runs one job of the plugin, and reports its end to the context. Like any NativeHandler: any
// worker, many at once.
void run_plugin_job(const locksley_plugin& plugin, void* state, JobContext& context,
                    std::string_view payload);

}  // namespace locksley::daemon
