// The counters of the link.
#pragma once

#include <cstdint>

#include "core/base/job.h"

namespace locksley::daemon {

// Counters for metrics, and the numbers of workers, slots and leases now.
struct WorkerLinkStats {
  std::uint64_t workers = 0;
  std::uint64_t slots = 0;
  std::uint64_t name_bytes = 0;  // WorkerLinkOptions::max_name_bytes
  std::uint64_t leases = 0;
  std::uint64_t leased_bytes = 0;
  // Since the start:
  std::uint64_t claims = 0;
  std::uint64_t lost_by_disconnect = 0;  // jobs that may have run
  std::uint64_t lost_by_silence = 0;     // the same
  std::uint64_t timed_out = 0;           // jobs that ended by their time-out
  std::uint64_t cut_orders = 0;
  std::uint64_t yielded_jobs = 0;
  std::uint64_t reclaimed_jobs = 0;
  Nanoseconds held_up{};  // time of slots that no batch was charged for (OutLease::Untouched); for tests
};

}  // namespace locksley::daemon
