// JOIN and LEAVE: who is a worker.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/workers/desks/claim_desk.h"
#include "daemon/workers/interface/worker_commands.h"
#include "daemon/workers/interface/worker_host.h"
#include "daemon/workers/interface/worker_link_options.h"
#include "daemon/workers/state/out_leases.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/served_handlers.h"
#include "daemon/workers/state/worker_accounts.h"
#include "daemon/workers/state/worker_clock.h"
#include "daemon/workers/state/worker_connections.h"
#include "daemon/workers/state/worker_orders.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// Makes a connection a worker, if its user may have one more, and removes workers. It charges the
// user for its workers, their slots and the names of their handlers.
//
// A member of WorkerLink, whose other members outlive it. One thread. Nothing blocks. Only
// allocation fails.
class JoinDesk {
 public:
  using Id = WorkerConnections::Id;
  using Workers = std::map<Id, RemoteWorker>;

  JoinDesk(WorkerHost& host, const WorkerLinkOptions& options, WorkerConnections& connections,
           WorkerAccounts& accounts, Workers& workers, ServedHandlers& handlers, WorkerClock& clock,
           OutLeases& leases, const WorkerOrders& orders, ClaimDesk& claims)
      : host_(host),
        options_(options),
        connections_(connections),
        accounts_(accounts),
        workers_(workers),
        handlers_(handlers),
        clock_(clock),
        leases_(leases),
        orders_(orders),
        claims_(claims) {}
  JoinDesk(const JoinDesk&) = delete;
  JoinDesk& operator=(const JoinDesk&) = delete;

  // Execute the commands, with their replies. leave() destroys the worker.
  void join(Id id, const proto::ArgumentList& arguments);
  void leave(RemoteWorker& worker, const proto::ArgumentList& arguments);
  // Removes and destroys the worker; its leases end for this reason.
  void remove(RemoteWorker& worker, LeaseEnd reason);

 private:
  // The error reply to a JOIN of the user; none: it may join.
  std::optional<std::string> refuse(const JoinCommand& command, const std::string& user);
  // The error if the limits of workers, slots and names leave no room for one more worker of the
  // user.
  std::optional<std::string> refuse_number(const JoinCommand& command, const std::string& user) const;
  void error(Id id, std::string_view text) { connections_.reply(id).error(text); }

  WorkerHost& host_;
  const WorkerLinkOptions& options_;
  WorkerConnections& connections_;
  WorkerAccounts& accounts_;
  Workers& workers_;
  ServedHandlers& handlers_;
  WorkerClock& clock_;
  OutLeases& leases_;
  const WorkerOrders& orders_;
  ClaimDesk& claims_;
};

}  // namespace locksley::daemon
