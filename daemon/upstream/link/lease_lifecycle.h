// The life of a lease: it begins, is cut or stopped, ends, goes back, or is lost.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/job.h"
#include "daemon/upstream/link/command_pipeline.h"
#include "daemon/upstream/link/held_lease.h"
#include "daemon/upstream/link/lease_beats.h"
#include "daemon/upstream/link/lease_table.h"
#include "daemon/upstream/link/unacknowledged_results.h"
#include "daemon/upstream/link/upstream_host.h"
#include "daemon/upstream/replies/reply_cursor.h"

namespace locksley::daemon {

// Takes each lease through its states (HeldLease::State). Gives its jobs to the host, obeys the
// upstream's orders, hands back jobs without a result by YIELD, and forgets a lease that is over:
// all its results are acknowledged, or it is lost.
//
// A member of the link, and used by its parts; one thread; nothing blocks. Invalid replies end in
// CommandPipeline::fail().
class LeaseLifecycle {
 public:
  LeaseLifecycle(UpstreamHost& host, LeaseTable& leases, UnacknowledgedResults& results, LeaseBeats& beats,
                 CommandPipeline& pipeline)
      : host_(host), leases_(leases), results_(results), beats_(beats), pipeline_(pipeline) {}
  LeaseLifecycle(const LeaseLifecycle&) = delete;
  LeaseLifecycle& operator=(const LeaseLifecycle&) = delete;

  // ---- Running ----

  // Begins the ready lease of the slot, if no other runs there.
  void begin_ready(std::uint32_t slot);
  // The lease will have no more results: hands back its jobs without a result.
  void ended(LeaseKey lease);
  // Whether the lease that ended last was so short that it is worth waiting for the results of the
  // next one.
  bool was_last_short() const { return last_was_short_; }

  // ---- Going back ----

  // Hands back the jobs from `at` on that have not started.
  void cut(HeldLease& lease, std::uint64_t at);
  void stop(HeldLease& lease);
  // Hands back the whole of a ready lease.
  void give_back(HeldLease& lease);
  // Sends YIELD for the jobs from `from` on; none: for all that are left.
  void yield(HeldLease& lease, std::optional<std::uint64_t> from);
  // Hands back the remaining jobs of a lease that has ended, once all its results are sent.
  void yield_rest(HeldLease& lease);
  // The upstream has taken the lease back: stops its jobs, and drops its results.
  void lose(HeldLease& lease);

  // ---- All leases ----

  // Hands back the jobs that have not started.
  void drain();
  // Asks running leases to stop.
  void stop_all();
  void lose_all();
  // Forgets all leases: the link no longer handles them.
  void forget_all();
  // Forgets the leases that went back to the upstream with the connection and have no result to
  // hand in. `keeps_ready`: keeps leases that have not begun, to reclaim them.
  void connection_lost(bool keeps_ready);

  // ---- Replies ----

  void on_settle(const AwaitedReply& awaited, ReplyCursor reply);
  void on_yield(const AwaitedReply& awaited, ReplyCursor reply);

  // ---- Counters ----

  std::uint64_t settled_jobs() const { return settled_jobs_; }
  std::uint64_t yielded_jobs() const { return yielded_jobs_; }
  std::uint64_t lost_leases() const { return lost_leases_; }

 private:
  void begin(HeldLease& lease);
  void forget_if_over(HeldLease& lease);

  UpstreamHost& host_;
  LeaseTable& leases_;
  UnacknowledgedResults& results_;
  LeaseBeats& beats_;
  CommandPipeline& pipeline_;

  bool last_was_short_ = false;
  std::uint64_t settled_jobs_ = 0;  // of which the upstream has recorded the result
  std::uint64_t yielded_jobs_ = 0;  // handed back
  std::uint64_t lost_leases_ = 0;
};

}  // namespace locksley::daemon
