// What a plugin is given to run a job where there is no pool: the table of core/plugin.h for one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/plugin.h"

namespace locksley::daemon {

// What is known of a job beside its payload. The views last for the job.
struct LoneJob {
  std::uint64_t index = 0;
  std::string_view batch_id;
};

// How it ended: `ok` with its output, or `error` with its text.
struct LoneResult {
  bool is_ok = false;
  std::string text;
};

// Runs one job to its end, with everything below it, on the calling thread.
//
// Sub-jobs are queued, and run by `wait`, last in first out: what the contract promises, also where the
// spawner still holds a lock that they will take. A loop is one piece, or as many as its grain makes. Nobody
// asks the job to stop: who wants it to ends the process. So there is no time limit to be seen, and `sleep`
// sleeps. A job is always at its first attempt, and has neither tenant nor trace: they are not known here.
LoneResult run_plugin_job_alone(const locksley_plugin& plugin, void* state, const LoneJob& job,
                                std::string_view payload);

}  // namespace locksley::daemon
