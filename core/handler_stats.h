// What a handler's jobs and batches have come to, for metrics.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/histogram.h"
#include "core/job.h"

namespace locksley {

// One a handler; written by workers once a claim (not once a job) and by whoever accepts batches; read at any
// time.
struct HandlerStats {
  std::array<std::atomic<std::uint64_t>, kJobStatuses> jobs{};  // by JobStatus
  DurationHistogram
      job_duration;  // where jobs are tiny, the mean of the few that were timed together, counted once each
  DurationHistogram batch_wait;      // submission to first start
  DurationHistogram batch_duration;  // submission to end

  void add_jobs(JobStatus status, std::uint64_t count) {
    // [handler-stats] relaxed: a counter nobody draws conclusions from.
    jobs[static_cast<std::size_t>(status)].fetch_add(count, std::memory_order_relaxed);
  }
};

}  // namespace locksley
