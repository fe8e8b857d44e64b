// Runs jobs of plugins without a pool: the host's table of core/plugin.h, for one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/plugin.h"

namespace locksley::daemon {

// The job besides its payload. The views are valid while it runs.
struct LoneJob {
  std::uint64_t index = 0;
  std::string_view batch_id;
};

// The job's end: `ok` with its output, or `error` with its text.
struct LoneResult {
  bool is_ok = false;
  std::string text;
};

// Runs one job to its end, with all its sub-jobs, on the calling thread.
//
// `spawn` queues sub-jobs, and `wait` runs them, last in first out, as the contract demands: the
// spawner may hold a lock that a sub-job will take. A loop is one burst; with a grain, it is bursts
// of at most that many indexes. The job is never asked to stop, because the daemon ends the process
// instead; so it sees no time limit, and `sleep` sleeps. The attempt is always 1, and tenant and
// trace are empty: this process does not know them.
LoneResult run_plugin_job_alone(const locksley_plugin& plugin, void* state, const LoneJob& job,
                                std::string_view payload);

}  // namespace locksley::daemon
