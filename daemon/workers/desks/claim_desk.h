// CLAIM: which worker gets which jobs, now or later.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/lane/lane.h"
#include "daemon/workers/interface/worker_commands.h"
#include "daemon/workers/interface/worker_host.h"
#include "daemon/workers/interface/worker_link_options.h"
#include "daemon/workers/interface/worker_link_stats.h"
#include "daemon/workers/state/out_leases.h"
#include "daemon/workers/state/reclaim_holds.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/served_handlers.h"
#include "daemon/workers/state/waiting_claims.h"
#include "daemon/workers/state/worker_accounts.h"
#include "daemon/workers/state/worker_clock.h"
#include "daemon/workers/state/worker_connections.h"
#include "daemon/workers/state/worker_orders.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// Gives workers their leases. A CLAIM that finds no jobs waits, in a list for each lane, until
// there are jobs, its time is over, or the next command of its worker comes. Nothing is claimed
// while the daemon drains, for a while after a restart, or while the store has no room.
//
// A member of WorkerLink, whose other members outlive it. One thread. A claim may wait for payloads
// on a disk; nothing else blocks. Only allocation fails.
class ClaimDesk {
 public:
  ClaimDesk(WorkerHost& host, const WorkerLinkOptions& options, WorkerConnections& connections,
            WorkerAccounts& accounts, ServedHandlers& handlers, WorkerClock& clock, const ReclaimHolds& holds,
            OutLeases& leases, const WorkerOrders& orders, WorkerLinkStats& stats)
      : host_(host),
        options_(options),
        connections_(connections),
        accounts_(accounts),
        handlers_(handlers),
        clock_(clock),
        holds_(holds),
        leases_(leases),
        orders_(orders),
        stats_(stats) {}
  ClaimDesk(const ClaimDesk&) = delete;
  ClaimDesk& operator=(const ClaimDesk&) = delete;

  // Executes the command, and replies now or later.
  void claim(RemoteWorker& worker, const proto::ArgumentList& arguments);
  // The first of `width` slots for a lease: the slot that the worker names, or one with room. The
  // error is that of the reply.
  static std::expected<std::uint32_t, std::string> slot_for(const RemoteWorker& worker,
                                                            std::optional<std::uint32_t> named,
                                                            std::uint32_t width);

  // ---- CLAIMs that wait ----

  // By lane; no list is empty.
  const std::map<Lane*, WaitingClaims>& waiting() const { return waiting_; }
  // Gives jobs to workers that wait.
  void serve_waiting();
  // Takes a waiting CLAIM, if there is one, off the lists. Writes no reply.
  void end_wait(RemoteWorker& worker);
  // Ends a waiting CLAIM of the worker, if there is one, with a null.
  void end_with_null(RemoteWorker& worker);
  // Makes the worker follow the last change of handlers, if it has not yet. This may end its
  // waiting CLAIM.
  void follow_handlers(RemoteWorker& worker);

  // Since the last forget_lack(), something was not claimed because the store had no room.
  bool lacks_room() const { return lacks_room_; }
  void forget_lack() { lacks_room_ = false; }

 private:
  // The handlers of a CLAIM; an error if the worker does not serve one.
  static Parsed<std::vector<ServedLane>> wanted(const RemoteWorker& worker, const ClaimCommand& command);
  // True: the worker has a lease, and the reply is written.
  bool try_claim(RemoteWorker& worker, const ClaimCommand& command, std::span<const ServedLane> lanes);
  bool try_claim(RemoteWorker& worker, const ClaimCommand& command, const ServedLane& served);
  bool may_claim();
  void write_claim(RemoteWorker& worker, const OutLease& out);
  void wait(RemoteWorker& worker, ClaimCommand command, std::vector<ServedLane> lanes);
  // CLAIMs for a slot without a lease; or for the next lease of a busy slot.
  enum class Claims : std::uint8_t { kOfIdleSlots, kOfBusySlots };
  void serve_waiting_of(Lane& lane, Claims which);

  WorkerHost& host_;
  const WorkerLinkOptions& options_;
  WorkerConnections& connections_;
  WorkerAccounts& accounts_;
  ServedHandlers& handlers_;
  WorkerClock& clock_;
  const ReclaimHolds& holds_;
  OutLeases& leases_;
  const WorkerOrders& orders_;
  WorkerLinkStats& stats_;
  std::map<Lane*, WaitingClaims> waiting_;
  std::uint64_t last_wait_ = 0;  // WaitingClaim::order
  bool lacks_room_ = false;
};

}  // namespace locksley::daemon
