#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

// The lanes that a configuration makes, and the handlers in each. Pure functions.

namespace locksley::config {

// The pool's lane, which runs no programs.
inline constexpr std::string_view kPoolLane = "cpu";
// The lane of handlers that run programs and name no lane.
inline constexpr std::string_view kProcessesLane = "processes";
// The most handlers of one lane. The scheduler has 1,024 gates for a lane, and removed handlers
// that still have batches need some.
inline constexpr std::size_t kMostHandlersOfLane = 1000;

// Whether only remote workers run the handler's jobs.
bool is_only_remote(const Handler& handler);
// Whether jobs of the handler run in other processes of this machine: commands, workers, plugins
// with `isolate`.
bool runs_processes(const Handler& handler);
// Whether one of these two holds: then its jobs wait in a lane other than the pool's.
bool is_in_lane_of_processes(const Handler& handler);
// The lane of such a handler.
std::string lane_of(const Handler& handler);

// The handler that `exec: true` makes.
inline constexpr std::string_view kExecHandler = "exec";
// The handlers of the file, and that of `exec: true`, which may use all slots of its lane.
std::map<std::string, Handler> all_handlers(const Config& config, std::uint32_t pool_workers);

// All lanes of processes, by name. If the section `lanes` does not have `processes`, that lane has
// as many slots as the pool has workers, or as the largest `concurrency` of its handlers, whichever
// is more; if it has no handlers, it does not exist.
std::map<std::string, Lane> process_lanes(const Config& config, std::uint32_t pool_workers);

// A sentence for each handler whose `concurrency` is more than the slots of its lane.
std::vector<std::string> lane_warnings(const Config& config);

}  // namespace locksley::config
