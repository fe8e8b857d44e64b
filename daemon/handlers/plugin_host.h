// What a plugin is given to run a job on the pool: the table of core/plugin.h over core/context.h.
#pragma once

#include <string_view>

#include "core/context.h"
#include "core/plugin.h"

namespace locksley::daemon {

// Runs one job of the plugin and brings its end to the context. As NativeHandler: any worker, many at once.
void run_plugin_job(const locksley_plugin& plugin, void* state, JobContext& context,
                    std::string_view payload);

}  // namespace locksley::daemon
