// What the link to the upstream daemon needs of the code that runs jobs.
#pragma once

#include <cstdint>

#include "daemon/upstream/replies/leased_jobs.h"

namespace locksley::daemon {

// A lease in this process. Not 0; never used again; it stays the same when the lease gets another
// name in RECLAIM.
using LeaseKey = std::uint64_t;

// Runs the jobs of leases. The interface of the link (daemon/upstream/link/upstream_link.h); a test
// implements it, too. Outlives the link. Called on the link's thread, inside the link's calls: it
// must not call the link meanwhile. It reports results later, by UpstreamLink::settle() and
// UpstreamLink::ended(). Nothing may block.
class UpstreamHost {
 public:
  virtual ~UpstreamHost() = default;

  // The jobs are to run now. False: they cannot, and the link hands them back.
  virtual bool begin(LeaseKey lease, LeasedJobs jobs) = 0;
  // Other workers want the jobs from `at` on that have not started. Returns the index from which on
  // jobs have left the lease, at least `at`; the end of the lease or higher if none has. These will
  // neither run nor be reported.
  virtual std::uint64_t withdraw(LeaseKey lease, std::uint64_t at) = 0;
  // No more jobs of the lease are to start; those that run end as they would have ended. ended()
  // follows.
  virtual void finish(LeaseKey lease) = 0;
  // The same, and those that run should stop.
  virtual void stop(LeaseKey lease) = 0;
  // The lowest index that has not started. A hint.
  virtual std::uint64_t next(LeaseKey lease) = 0;
};

}  // namespace locksley::daemon
