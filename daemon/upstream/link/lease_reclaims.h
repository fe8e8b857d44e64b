// RECLAIM: the leases that the link held on the previous connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "daemon/upstream/link/command_pipeline.h"
#include "daemon/upstream/link/held_lease.h"
#include "daemon/upstream/link/lease_lifecycle.h"
#include "daemon/upstream/link/lease_table.h"
#include "daemon/upstream/link/unacknowledged_results.h"
#include "daemon/upstream/replies/reply_cursor.h"

namespace locksley::daemon {

// After each JOIN, asks for the leases that this process still holds, as many at once as slots have
// room for. If the upstream grants a lease, the lease goes on with the jobs that it still has, and
// its results are handed in. If the upstream refuses it, the lease is lost.
//
// A member of the link; one thread; nothing blocks. Invalid replies end in CommandPipeline::fail().
class LeaseReclaims {
 public:
  LeaseReclaims(LeaseTable& leases, UnacknowledgedResults& results, LeaseLifecycle& lifecycle,
                CommandPipeline& pipeline)
      : leases_(leases), results_(results), lifecycle_(lifecycle), pipeline_(pipeline) {}
  LeaseReclaims(const LeaseReclaims&) = delete;
  LeaseReclaims& operator=(const LeaseReclaims&) = delete;

  // True: no lease is left to be reclaimed, so the link serves.
  bool begin();
  bool on_reply(const AwaitedReply& awaited, ReplyCursor reply);
  void connection_lost();

  std::uint64_t reclaimed_leases() const { return reclaimed_leases_; }

 private:
  // Sends as many RECLAIMs as slots have room for. True: all are answered.
  bool pump();
  std::optional<std::uint32_t> slot_for(const HeldLease& lease);
  // The lease has a name again, and its `held`.
  void reclaimed(HeldLease& lease);

  LeaseTable& leases_;
  UnacknowledgedResults& results_;
  LeaseLifecycle& lifecycle_;
  CommandPipeline& pipeline_;

  std::deque<LeaseKey> to_reclaim_;
  std::size_t reclaims_out_ = 0;
  bool names_leases_ = true;  // this upstream accepts RECLAIM with LEASE, as far as is known
  std::uint64_t reclaimed_leases_ = 0;
};

}  // namespace locksley::daemon
