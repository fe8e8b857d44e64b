// Facts of how a job ran, besides its status and output: they are kept with the row of its result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace locksley {

// Facts of the last attempt of a job. A plain value; the views point into memory of the code that
// made it.
struct JobFacts {
  std::uint32_t attempt = 1;
  std::int64_t started_at = 0;  // Unix milliseconds
  // From its start to its end. If Batch::publish() has added the facts (failed jobs of the pool,
  // leased jobs that were not shown), from the beginning of the turn to the publication, and
  // `started_at` is that beginning.
  std::int64_t duration_us = 0;
  std::string_view worker = {};  // where it ran
  std::optional<std::int32_t> exit_status = {};
  std::optional<std::uint32_t> progress = {};  // per cent, as the job last reported
  std::string_view note = {};                  // its last note; empty: none
  std::uint64_t log_end = 0;                   // how many bytes it wrote to standard error
  std::string_view log = {};                   // the last of these bytes

  // Unix milliseconds.
  std::int64_t finished_at() const { return started_at + (duration_us + 500) / 1000; }
};

// Appends the facts to `bytes`: some 20 bytes, and the texts.
void encode(const JobFacts& facts, std::string& bytes);
// Returned views point into `bytes`. None for bytes that encode() did not write.
std::optional<JobFacts> decode_facts(std::string_view bytes);

}  // namespace locksley
