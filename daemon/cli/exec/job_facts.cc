#include "daemon/cli/exec/job_facts.h"

#include <utility>

namespace locksley::cli {

using client::Expected;

Expected<std::vector<JobFacts>> ask_job_facts(client::Client& client, std::string_view batch,
                                              std::span<const std::uint64_t> indexes, bool with_times) {
  std::vector<JobFacts> facts(indexes.size());
  if (with_times) {
    auto jobs = client.jobs(batch, indexes);
    if (!jobs) return std::unexpected(std::move(jobs.error()));
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const auto job = client::to_job((*jobs)[i]);
      if (!job) continue;
      facts[i].started_ms = job->started_at;
      facts[i].duration_us = job->duration_us;
    }
  }
  auto logs = client.logs(batch, indexes);
  if (!logs) return std::unexpected(std::move(logs.error()));
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (auto part = client::to_log_part((*logs)[i])) facts[i].errors = std::move(part->bytes);
  }
  return facts;
}

}  // namespace locksley::cli
