// The standard error and the times of jobs that have ended, as JOB and LOG have them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/clients/cpp/client.h"

namespace locksley::cli {

// What `locksley exec` asks about jobs that have ended, beside their rows.
struct JobFacts {
  std::string errors = {};  // the end of what it wrote to standard error
  std::int64_t started_ms = 0;
  std::uint64_t duration_us = 0;
};

// Of jobs of one batch, in the order of `indexes`, as two pipelines at most. `with_times`: only
// then the times are asked for. A job of which the daemon knows nothing any more has none. Fails
// and blocks as Client does.
client::Expected<std::vector<JobFacts>> ask_job_facts(client::Client& client, std::string_view batch,
                                                      std::span<const std::uint64_t> indexes,
                                                      bool with_times);

}  // namespace locksley::cli
