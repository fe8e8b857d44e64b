// What can be seen of a ring and of a queue in it. Plain values, as they stood at one moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/job.h"

namespace locksley {

struct TenantView {
  std::string tenant;
  std::uint32_t weight = 1;
  std::uint64_t queues = 0;  // attached, but for internal ones
  std::uint64_t queued = 0;  // jobs
  std::uint32_t executors = 0;
  Nanoseconds busy{};   // worker time used and settled since the tenant came
  double share = 0;     // fraction of the lane that is its due now; 0 if it has nothing to do
  double received = 0;  // fraction of the lane's worker time that it got lately (time constant 5 s)
};

struct RingSnapshot {
  std::uint64_t queued = 0;   // jobs
  std::uint64_t claimed = 0;  // jobs claimed and not settled
  std::uint32_t executors = 0;
  std::uint64_t queues = 0;  // attached, but for internal ones
  // With jobs queued (paused ones too) or with executors.
  std::uint64_t active_queues = 0;
  std::uint64_t claims_total = 0;
  std::vector<std::uint64_t> deepest;  // queued jobs of the deepest queues, deepest first
  std::vector<TenantView> tenants;     // by name
};

struct QueueView {
  bool attached = false;  // else nothing below means anything
  std::uint64_t queued = 0;
  std::uint32_t executors = 0;
  // Queues that will be served before it, if nothing changes; 0 unless it waits for its turn. Exact with one
  // tenant of at most 65,535 queues, else within the error of the cost estimates, or of a sample.
  std::uint64_t ahead = 0;
  double share = 0;        // fraction of the lane that is its due now; 0 if it has nothing that may run
  double received = 0;     // fraction of the lane's worker time that it got lately (time constant 5 s)
  Nanoseconds job_cost{};  // what a job is expected to cost; 0: unknown
  bool paused = false;
  bool at_slots = false;
  bool waiting = false;  // has something to claim and may be claimed from
};

}  // namespace locksley
