// The data of the link to the upstream: leases and slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "daemon/upstream/link/upstream_host.h"
#include "daemon/upstream/replies/leased_jobs.h"

namespace locksley::daemon {

// A lease of this process. Plain data of the link.
struct HeldLease {
  // kReady: its jobs have not begun. kEnded: the link has all results that this process will
  // produce.
  enum class State : std::uint8_t { kReady, kRunning, kEnded };

  LeaseKey key = 0;
  State state = State::kReady;
  std::string name;    // on the wire; empty: the connection on which it had a name is gone
  std::string former;  // its last name on an earlier connection
  std::uint64_t batch = 0;
  std::uint32_t attempt = 1;  // for RECLAIM: each restart of the upstream increases it by one
  IndexRange range;           // without the jobs withdrawn at its end
  // The jobs that it still had after the last RECLAIM, ascending; results of other jobs are
  // dropped. Empty: all jobs.
  std::vector<IndexRange> held;
  std::uint32_t slot = 0;
  LeasedJobs jobs;            // while it is ready
  bool has_timeout = false;   // its jobs have one
  Nanoseconds began{};        // when its jobs were given to the host
  std::uint64_t settled = 0;  // jobs whose results the link has
  bool is_lost = false;       // the upstream has taken it back, or refuses it: its results no longer count
  bool is_stopping = false;   // the host was told to stop it
  bool must_yield = false;    // it has ended, and must hand back its jobs without a result
  // The NOTE to be sent before the next result: its words after the lease's name.
  std::vector<std::string> last_news;
  // Its unacknowledged results: keys of UnacknowledgedResults, ascending.
  std::vector<std::uint64_t> results;
};

// A place where one lease runs and one is ready.
struct UpstreamSlot {
  static constexpr std::uint32_t kMostLeases = 2;

  LeaseKey running = 0;      // 0: none
  LeaseKey ready = 0;        // the same
  std::uint32_t claims = 0;  // CLAIMs that name it and are not answered
  // Leases that ended here earlier, and are being reclaimed to hand in their results.
  std::uint32_t reclaims = 0;

  std::uint32_t leases() const { return (running != 0 ? 1U : 0U) + (ready != 0 ? 1U : 0U); }
  std::uint32_t taken() const { return leases() + claims; }
};

}  // namespace locksley::daemon
