// What happens to a lease: it begins, is cut or stopped, ends, goes back, or is lost.
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
// upstream's orders, hands back jobs without a result with YIELD, and forgets a lease that is over:
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

  // The ready lease of the slot begins, if no other runs there.
  void begin_ready(std::uint32_t slot);
  // The lease will have no more results: jobs without a result go back.
  void ended(LeaseKey lease);
  // The lease that ended last: whether it was over so soon that the results of the next one are
  // worth waiting for.
  bool was_last_short() const { return last_was_short_; }

  // ---- Going back ----

  // Jobs from `at` on that have not started go back.
  void cut(HeldLease& lease, std::uint64_t at);
  void stop(HeldLease& lease);
  // A ready lease goes back whole.
  void give_back(HeldLease& lease);
  // YIELD of the jobs from `from` on; of all that are left.
  void yield(HeldLease& lease, std::optional<std::uint64_t> from);
  // Hands back the remaining jobs of a lease that has ended, once all its results are sent.
  void yield_rest(HeldLease& lease);
  // The upstream has taken it back: its jobs stop, and its results are dropped.
  void lose(HeldLease& lease);

  // ---- All leases ----

  // What has not started goes back.
  void drain();
  // Those that run are asked to stop.
  void stop_all();
  void lose_all();
  // Drops all leases and their state.
  void forget_all();
  // Leases that went back to the upstream with the connection, and have no result to hand in, are
  // forgotten. `keeps_ready`: those that have not begun are kept, to be reclaimed.
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
