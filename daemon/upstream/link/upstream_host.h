// The functions of the code that runs jobs, which the link to the upstream daemon calls.
#pragma once

#include <cstdint>

#include "daemon/upstream/replies/leased_jobs.h"

namespace locksley::daemon {

// The number of a lease in this process. Not 0; never used again; it stays the same when the lease
// gets another name in RECLAIM.
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
  // Other workers want the jobs from `at` on that have not started. Jobs from the returned index
  // on, which is at least `at`, have left the lease: they will neither run nor be reported. The end
  // of the lease or higher: none has left.
  virtual std::uint64_t withdraw(LeaseKey lease, std::uint64_t at) = 0;
  // No more jobs of the lease are to start; running jobs end by themselves. ended() follows.
  virtual void finish(LeaseKey lease) = 0;
  // The same, and running jobs should stop.
  virtual void stop(LeaseKey lease) = 0;
  // The lowest index that has not started. A hint.
  virtual std::uint64_t next(LeaseKey lease) = 0;
};

}  // namespace locksley::daemon
