// The orders to workers about their leases: CUT, STOP, DRAIN and NONE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "daemon/workers/interface/worker_commands.h"
#include "daemon/workers/interface/worker_link_stats.h"
#include "daemon/workers/state/cut_planner.h"
#include "daemon/workers/state/out_lease.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/waiting_claims.h"
#include "daemon/workers/state/worker_accounts.h"
#include "daemon/workers/state/worker_clock.h"
#include "daemon/workers/state/worker_connections.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// Gives workers their orders: by a push to those with PUSH, else with the reply to a BEAT. An order
// about a lease follows from the state of its batch, from the cuts that CutPlanner plans, and from
// whether the daemon drains. LeaseOrders has the orders that a worker got about each lease.
//
// A member of WorkerLink, whose other members outlive it. One thread. Nothing blocks. Only
// allocation fails.
class WorkerOrders {
 public:
  using Id = WorkerConnections::Id;

  // `life`: of the names of leases.
  WorkerOrders(std::uint64_t life, CutPlanner::Workers& workers, const WorkerAccounts& accounts,
               WorkerConnections& connections, const WorkerClock& clock, WorkerLinkStats& stats)
      : life_(life),
        connections_(connections),
        clock_(clock),
        stats_(stats),
        planner_(workers, accounts, clock.now()) {}
  WorkerOrders(const WorkerOrders&) = delete;
  WorkerOrders& operator=(const WorkerOrders&) = delete;

  // From now on workers are to hand back the jobs that have not started. False: the drain had begun
  // before.
  bool begin_drain() { return !std::exchange(is_draining_, true); }
  bool is_draining() const { return is_draining_; }
  // Whether the worker is to hand back jobs of this lease.
  bool asks_for(const OutLease& out) const;

  // ---- Orders as they stand ----

  // Pushes the orders that a worker with PUSH has not got yet.
  void push_orders(RemoteWorker& worker);
  // The same for a lease that is about to be taken away.
  void push_stop(const RemoteWorker& worker, const OutLease& out);
  // Pushes to a worker with PUSH that the daemon drains; that the daemon lives.
  void push_drain(const RemoteWorker& worker);
  void push_life(const RemoteWorker& worker);
  // Writes the reply to a BEAT of the worker: its orders, unless they are pushed, after a STOP for
  // each lease that the BEAT names although it is `gone`.
  void reply_to_beat(RemoteWorker& worker, std::span<const LeaseName> gone);

  // ---- Cuts ----

  // Cut the leases of the worker, or this lease, if they last too long while others wait for its
  // slots.
  void shorten_leases(RemoteWorker& worker);
  void shorten(RemoteWorker& worker, OutLease& out);
  // Cuts leases for workers that are idle, if it is time to search for some. `waiting`: the CLAIMs
  // that wait in each lane.
  void cut_for_idle_workers(const std::map<Lane*, WaitingClaims>& waiting);
  // When the next search is due if nothing happens and CLAIMs wait; none: no search would find a
  // lease.
  std::optional<Nanoseconds> next_search() const {
    return stats_.leases != 0 && !is_draining_ ? std::optional(planner_.next_search()) : std::nullopt;
  }

 private:
  // An order of one lease, as it stands.
  struct Order {
    enum class Kind : std::uint8_t { kCut, kStop, kDrain, kNone } kind = Kind::kDrain;
    LeaseName lease = {};
    std::uint64_t at = 0;
  };
  std::optional<Order> order_for(const OutLease& out) const;
  // The number of words of an order, which follow the header of a push or of a reply.
  static std::size_t words_of(const Order& order);
  static void write_words(proto::ReplyWriter writer, const Order& order);
  void push_order(const RemoteWorker& worker, const Order& order);
  // Notes the cut in the lease's orders, so that its worker is asked for jobs.
  void order_cut(const CutPlanner::Cut& cut, bool is_for_idle_worker);

  const std::uint64_t life_;
  WorkerConnections& connections_;
  const WorkerClock& clock_;
  WorkerLinkStats& stats_;
  CutPlanner planner_;
  bool is_draining_ = false;
};

}  // namespace locksley::daemon
