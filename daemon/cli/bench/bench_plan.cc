#include "daemon/cli/bench/bench_plan.h"

#include <algorithm>

namespace locksley::cli {
namespace {

// By default the daemon's max_command is 1 GiB; half of it leaves room for a lower setting, and for
// the command's head.
constexpr std::uint64_t kMaxBatchBytes = std::uint64_t{1} << 29;

// A payload of `bytes` bytes that differs from job to job: the index in decimal, with zeros in
// front, or cut on the left.
std::string numbered_payload(std::uint64_t index, std::size_t bytes) {
  const std::string digits = std::to_string(index);
  if (digits.size() >= bytes) return digits.substr(digits.size() - bytes);
  return std::string(bytes - digits.size(), '0') + digits;
}

}  // namespace

client::Expected<BenchPlan> BenchPlan::make(const BenchArguments& arguments) {
  BenchPlan plan;
  plan.handler_ = arguments.handler;
  plan.jobs_ = arguments.jobs.value_or(arguments.latency ? kLatencyJobs : kThroughputJobs);
  plan.batch_ = arguments.latency ? 1 : std::min(arguments.batch, plan.jobs_);
  // A connection without a batch would be idle.
  plan.connections_ = static_cast<unsigned>(std::min<std::uint64_t>(arguments.connections, plan.batches()));
  plan.payload_bytes_ = arguments.text ? arguments.text->size() : arguments.payload_bytes;
  plan.payload_ = arguments.text.value_or(numbered_payload(0, plan.payload_bytes_));
  const std::string head = "$" + std::to_string(plan.payload_bytes_) + "\r\n";
  plan.record_bytes_ = head.size() + plan.payload_bytes_ + 2;
  if (plan.record_bytes_ > kMaxBatchBytes / plan.batch_) {
    return client::client_error(client::ClientError::Kind::kAddress,
                                "a batch of " + std::to_string(plan.batch_) + " payloads of " +
                                    std::to_string(plan.payload_bytes_) + " bytes is more than 512 MiB");
  }
  plan.payloads_.reserve(plan.batch_ * plan.record_bytes_);
  for (std::uint64_t i = 0; i < plan.batch_; ++i) {
    plan.payloads_ += head;
    plan.payloads_ += arguments.text ? *arguments.text : numbered_payload(i, plan.payload_bytes_);
    plan.payloads_ += "\r\n";
  }
  return plan;
}

std::uint64_t BenchPlan::jobs_of(std::uint64_t number) const {
  return std::min(batch_, jobs_ - std::min(jobs_, number * batch_));
}

std::string_view BenchPlan::payloads(std::uint64_t jobs) const {
  return std::string_view(payloads_).substr(0, jobs * record_bytes_);
}

std::uint64_t BenchPlan::jobs_of_connection(unsigned connection) const {
  return jobs_ / connections_ + (connection < jobs_ % connections_ ? 1 : 0);
}

bool RowCheck::is_complete(std::uint64_t jobs) const {
  const std::uint64_t sum = jobs % 2 == 0 ? jobs / 2 * (jobs - 1) : (jobs - 1) / 2 * jobs;
  return rows == jobs && index_sum == (jobs == 0 ? 0 : sum);
}

}  // namespace locksley::cli
