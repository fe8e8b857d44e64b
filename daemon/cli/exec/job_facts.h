// The standard error and the times of jobs that have ended, as JOB and LOG have them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/clients/cpp/client.h"

namespace locksley::cli {

// What `locksley exec` asks about a job that has ended, in addition to its row.
struct JobFacts {
  std::string errors = {};  // the end of what it wrote to standard error
  std::int64_t started_ms = 0;
  std::uint64_t duration_us = 0;
};

// Asks for the facts of jobs of one batch, in the order of `indexes`, in two pipelines at most.
// Without `with_times` the times stay 0. A job that the daemon no longer knows has empty facts.
// Fails and blocks as Client does.
client::Expected<std::vector<JobFacts>> ask_job_facts(client::Client& client, std::string_view batch,
                                                      std::span<const std::uint64_t> indexes,
                                                      bool with_times);

}  // namespace locksley::cli
