// RECLAIM: how a worker gets back the jobs that it had on another connection, or from an earlier
// process of the daemon.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string_view>

#include "core/batch/batch.h"
#include "core/lane/lease.h"
#include "core/lane/loss_counts.h"
#include "daemon/workers/desks/claim_desk.h"
#include "daemon/workers/interface/worker_commands.h"
#include "daemon/workers/interface/worker_host.h"
#include "daemon/workers/interface/worker_link_options.h"
#include "daemon/workers/interface/worker_link_stats.h"
#include "daemon/workers/state/lease_places.h"
#include "daemon/workers/state/out_leases.h"
#include "daemon/workers/state/reclaim_holds.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/worker_accounts.h"
#include "daemon/workers/state/worker_clock.h"
#include "daemon/workers/state/worker_connections.h"
#include "daemon/workers/state/worker_orders.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// Gives a worker the jobs that it names. They are either queued again, since its connection closed
// or the daemon restarted, or still leased to another connection of its user, which the worker has
// given up.
//
// A member of WorkerLink, whose other members outlive it. One thread. Nothing blocks. Only
// allocation fails.
class ReclaimDesk {
 public:
  using Workers = std::map<WorkerConnections::Id, RemoteWorker>;

  ReclaimDesk(WorkerHost& host, const WorkerLinkOptions& options, WorkerConnections& connections,
              const WorkerAccounts& accounts, Workers& workers, const WorkerClock& clock,
              const ReclaimHolds& holds, OutLeases& leases, WorkerOrders& orders, ClaimDesk& claims,
              WorkerLinkStats& stats)
      : host_(host),
        options_(options),
        connections_(connections),
        accounts_(accounts),
        workers_(workers),
        clock_(clock),
        holds_(holds),
        leases_(leases),
        orders_(orders),
        claims_(claims),
        stats_(stats) {}
  ReclaimDesk(const ReclaimDesk&) = delete;
  ReclaimDesk& operator=(const ReclaimDesk&) = delete;

  // Executes the command, with its reply.
  void reclaim(RemoteWorker& worker, const proto::ArgumentList& arguments);

 private:
  // Puts jobs into the lease, and returns their attempt; or the error of the reply.
  std::expected<std::uint32_t, std::string_view> reclaim_jobs(const RemoteWorker& worker,
                                                              const ReclaimCommand& command, Batch& batch,
                                                              const HandlerPlace& place, Lease& lease);
  // The lease that a RECLAIM names, if it is still out on another connection of the user.
  std::optional<LeasePlaces::Place> find_elsewhere(const RemoteWorker& worker, const ReclaimCommand& command,
                                                   const Batch& batch);
  // The worker has this lease on an earlier connection, which it has given up before the daemon
  // noticed: its jobs are queued again, and no loss is counted.
  void give_up(RemoteWorker& worker, std::uint64_t lease);
  // As reclaim_jobs(), for queued jobs.
  std::expected<std::uint32_t, std::string_view> reclaim_queued(const RemoteWorker& worker,
                                                                const ReclaimCommand& command, Batch& batch,
                                                                Lease& lease, LossCounts& losses) const;

  WorkerHost& host_;
  const WorkerLinkOptions& options_;
  WorkerConnections& connections_;
  const WorkerAccounts& accounts_;
  Workers& workers_;
  const WorkerClock& clock_;
  const ReclaimHolds& holds_;
  OutLeases& leases_;
  WorkerOrders& orders_;
  ClaimDesk& claims_;
  WorkerLinkStats& stats_;
};

}  // namespace locksley::daemon
