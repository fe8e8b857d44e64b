// The leases that are out: their beginning, their charges and their end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/lane/lease.h"
#include "core/lane/loss_counts.h"
#include "daemon/workers/interface/worker_commands.h"
#include "daemon/workers/interface/worker_link_stats.h"
#include "daemon/workers/state/lane_backoffs.h"
#include "daemon/workers/state/lease_places.h"
#include "daemon/workers/state/out_lease.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/served_handlers.h"
#include "daemon/workers/state/worker_accounts.h"
#include "daemon/workers/state/worker_clock.h"
#include "daemon/workers/state/worker_connections.h"

namespace locksley::daemon {

// Why a lease is over.
enum class LeaseEnd : std::uint8_t { kSettled, kReclaimed, kDisconnected, kSilent, kTimedOut };

// All leases of remote workers. Each belongs to its worker (RemoteWorker::leases); add() and end()
// keep all that depends on it: the slots, the accounts, the timer, the names, the counts of losses
// and the back-offs. end() updates all of this, whatever the reason of the end is.
//
// A member of WorkerLink, whose other members outlive it. One thread. Nothing blocks. Only
// allocation fails.
class OutLeases {
 public:
  using Id = WorkerConnections::Id;

  // `life`: of the names of leases. `max_losses`: WorkerLinkOptions::max_losses.
  OutLeases(std::uint64_t life, std::uint32_t max_losses, WorkerConnections& connections,
            WorkerAccounts& accounts, ServedHandlers& handlers, WorkerClock& clock, LaneBackoffs& backoffs,
            WorkerLinkStats& stats)
      : life_(life),
        losses_(max_losses),
        connections_(connections),
        accounts_(accounts),
        handlers_(handlers),
        clock_(clock),
        backoffs_(backoffs),
        stats_(stats) {}
  OutLeases(const OutLeases&) = delete;
  OutLeases& operator=(const OutLeases&) = delete;

  // A lease without jobs, which is not out yet.
  std::unique_ptr<OutLease> make(Lane& lane) { return std::make_unique<OutLease>(lane, buffers_); }
  // The worker has the lease, which has jobs, on the slots from `first_slot` on.
  OutLease& add(RemoteWorker& worker, std::unique_ptr<OutLease> lease, std::uint32_t first_slot);
  // Charges the leases of the worker for their use so far.
  void charge(RemoteWorker& worker);
  // The worker has given up its connection, or loses it: its present leases end without a loss.
  void excuse(RemoteWorker& worker);
  // Ends the lease, and destroys it.
  void end(RemoteWorker& worker, OutLease& out, LeaseEnd reason);
  // Ends all leases of the worker.
  void end_all(RemoteWorker& worker, LeaseEnd reason);

  // ---- Names ----

  bool is_of_this_life(const LeaseName& name) const { return name.life == life_; }
  LeaseName name_of(const OutLease& out) const { return {life_, out.number}; }
  // Null: the worker does not hold that lease.
  OutLease* find(RemoteWorker& worker, const LeaseName& name) const {
    return is_of_this_life(name) ? worker.find(name.number) : nullptr;
  }
  // Which connection has the lease that its worker knows by this name; none: the lease is over.
  std::optional<LeasePlaces::Place> place_of(const LeaseName& name) const {
    return is_of_this_life(name) ? places_.find(name.number) : std::nullopt;
  }
  // The lease was reclaimed under this name, and is also known by it, unless another lease is.
  void add_former(const RemoteWorker& worker, OutLease& out, const LeaseName& former);

  // How often jobs were lost.
  LossCounts& losses() { return losses_; }

 private:
  // As end(); `in_front`: how many of its slots may have run a job of it.
  void end(RemoteWorker& worker, OutLease& out, LeaseEnd reason, std::uint32_t in_front);

  const std::uint64_t life_;
  LeaseBuffers buffers_;
  LossCounts losses_;
  LeasePlaces places_;
  std::uint64_t last_ = 0;  // number of the last lease
  WorkerConnections& connections_;
  WorkerAccounts& accounts_;
  ServedHandlers& handlers_;
  WorkerClock& clock_;
  LaneBackoffs& backoffs_;
  WorkerLinkStats& stats_;
};

}  // namespace locksley::daemon
