// SETTLE, YIELD, BEAT and NOTE: workers report on the jobs of their leases.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/workers/interface/worker_commands.h"
#include "daemon/workers/interface/worker_host.h"
#include "daemon/workers/interface/worker_link_options.h"
#include "daemon/workers/interface/worker_link_stats.h"
#include "daemon/workers/state/out_lease.h"
#include "daemon/workers/state/out_leases.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/worker_accounts.h"
#include "daemon/workers/state/worker_clock.h"
#include "daemon/workers/state/worker_connections.h"
#include "daemon/workers/state/worker_orders.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// Records results, takes back the jobs that a worker hands back, and notes which jobs have begun
// and what their notes and logs say. Each function runs one command of the worker, with its reply.
//
// A member of WorkerLink, whose other members outlive it. One thread. Nothing blocks. Only
// allocation fails.
class ReportDesk {
 public:
  ReportDesk(WorkerHost& host, const WorkerLinkOptions& options, WorkerConnections& connections,
             const WorkerAccounts& accounts, WorkerClock& clock, OutLeases& leases, WorkerOrders& orders,
             WorkerLinkStats& stats)
      : host_(host),
        options_(options),
        connections_(connections),
        accounts_(accounts),
        clock_(clock),
        leases_(leases),
        orders_(orders),
        stats_(stats) {}
  ReportDesk(const ReportDesk&) = delete;
  ReportDesk& operator=(const ReportDesk&) = delete;

  void settle(RemoteWorker& worker, const proto::ArgumentList& arguments);
  void yield(RemoteWorker& worker, const proto::ArgumentList& arguments);
  void beat(RemoteWorker& worker, const proto::ArgumentList& arguments);
  void note(RemoteWorker& worker, const proto::ArgumentList& arguments);

 private:
  // Null, after the reply LOST: the worker does not hold that lease.
  OutLease* find_lease(RemoteWorker& worker, const LeaseName& name);
  // The worker hands back the jobs from `from` on. If that answers a cut for an idle worker, notes
  // which jobs have begun, or that the worker is held up.
  void note_answer(RemoteWorker& worker, OutLease& out, std::uint64_t from, std::uint32_t in_front);
  void error(const RemoteWorker& worker, std::string_view text) {
    connections_.reply(worker.connection).error(text);
  }

  WorkerHost& host_;
  const WorkerLinkOptions& options_;
  WorkerConnections& connections_;
  const WorkerAccounts& accounts_;
  WorkerClock& clock_;
  OutLeases& leases_;
  WorkerOrders& orders_;
  WorkerLinkStats& stats_;
  std::vector<std::string_view> outputs_;  // of a SETTLE, while it is executed
};

}  // namespace locksley::daemon
