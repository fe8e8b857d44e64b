// The commands that `locksley bench` sends, and the check of their replies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/cli/context/options.h"
#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// What `bench` sends: how the jobs are cut into batches and dealt to the connections, and the bytes
// of a batch's payloads, encoded once and sent again for every batch. Immutable once made, so every
// thread may read it.
class BenchPlan {
 public:
  static constexpr std::uint64_t kThroughputJobs = 1'000'000;
  static constexpr std::uint64_t kLatencyJobs = 50'000;

  // Fails with kAddress where a batch would be larger than a command may be.
  static client::Expected<BenchPlan> make(const BenchArguments& arguments);

  const std::string& handler() const { return handler_; }
  std::uint64_t jobs() const { return jobs_; }
  unsigned connections() const { return connections_; }
  std::uint64_t payload_bytes() const { return payload_bytes_; }

  std::uint64_t batches() const { return (jobs_ + batch_ - 1) / batch_; }
  // The number of jobs of batch `number`; the last batch may be smaller.
  std::uint64_t jobs_of(std::uint64_t number) const;
  // The encoded payloads of a batch of `jobs` jobs: the start of the largest batch's, as all have
  // the same length.
  std::string_view payloads(std::uint64_t jobs) const;
  // One connection's part of the single jobs of --latency.
  std::uint64_t jobs_of_connection(unsigned connection) const;
  // The payload of job 0, not encoded.
  std::string_view payload() const { return payload_; }

 private:
  std::string handler_;
  std::uint64_t jobs_ = 0;
  std::uint64_t batch_ = 0;
  unsigned connections_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t record_bytes_ = 0;  // of an encoded payload
  std::string payload_;
  std::string payloads_;
};

// Counts over the results of a batch, to be compared with its payloads.
struct RowCheck {
  std::uint64_t rows = 0;
  std::uint64_t ok = 0;
  std::uint64_t output_bytes = 0;
  std::uint64_t index_sum = 0;

  void add(std::uint64_t index, std::string_view status, std::string_view output) {
    ++rows;
    ok += status == "ok" ? 1U : 0U;
    output_bytes += output.size();
    index_sum += index;
  }
  // Whether each index of a batch of `jobs` jobs came once, as far as their number and their sum
  // tell.
  bool is_complete(std::uint64_t jobs) const;
};

}  // namespace locksley::cli
