// Counters of a handler's jobs and batches, for metrics.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/base/histogram.h"
#include "core/base/job.h"

namespace locksley {

// One for each handler, a member of it. Publications count the jobs. Workers write the durations of
// jobs once a turn, leases once at their end, other executors once a job. Any thread may read it at
// any time; nothing blocks or fails.
struct HandlerStats {
  std::array<std::atomic<std::uint64_t>, kJobStatuses> jobs{};  // by JobStatus
  // Tiny jobs are timed in bursts: each of them counts with the mean of its burst. Each job of a
  // lease counts with the mean of the lease.
  DurationHistogram job_duration;
  DurationHistogram batch_wait;      // submission to first start
  DurationHistogram batch_duration;  // submission to end
  // Processes for its jobs that could not be started, or ended before they read one.
  std::atomic<std::uint64_t> failed_starts{0};

  void add_jobs(JobStatus status, std::uint64_t count) {
    // [handler-stats] relaxed: a counter on its own; no code depends on its value.
    jobs[static_cast<std::size_t>(status)].fetch_add(count, std::memory_order_relaxed);
  }
};

}  // namespace locksley
