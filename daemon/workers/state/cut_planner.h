// Chooses which leases of remote workers are cut, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/base/job.h"
#include "core/lane/lane.h"
#include "daemon/workers/state/out_lease.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/waiting_claims.h"
#include "daemon/workers/state/worker_accounts.h"

namespace locksley::daemon {

// Chooses the leases that are cut: the link asks their workers to hand back the jobs from a certain
// index on.
//
// A lease is cut for one of two reasons:
//   - Workers are idle, and no job that they could run is queued: stealing over the wire. Among the
//     leases that they could serve, the planner cuts the lease that would end last, in the middle
//     of its jobs that have not started. A thief that takes half needs few steals (Danny Hendler
//     and Nir Shavit, "Non-Blocking Steal-Half Work Queues", 2002). Its victim is not a random one,
//     since the link knows all leases.
//   - It lasts longer than was expected, and jobs of other batches wait for its slots. It keeps one
//     job for each slot.
//
// The planner gives no orders: its owner does, and notes each order in LeaseOrders::cut before its
// next call.
//
// A member of WorkerOrders; the workers and the accounts outlive it. One thread. Nothing blocks.
// Only allocation fails. A search visits all workers and their leases: O(slots + leases), and
// perhaps the parts of each lease.
class CutPlanner {
 public:
  using Workers = std::map<std::uint64_t, RemoteWorker>;  // by connection

  CutPlanner(Workers& workers, const WorkerAccounts& accounts, Nanoseconds now)
      : workers_(workers), accounts_(accounts), may_search_(now), next_search_(now) {}
  CutPlanner(const CutPlanner&) = delete;
  CutPlanner& operator=(const CutPlanner&) = delete;

  struct Cut {
    RemoteWorker* worker;
    OutLease* out;     // of this worker
    std::uint64_t at;  // the first job to hand back
  };

  // ---- For idle workers: a search in each lane ----

  // Whether a search may begin after an event.
  bool may_search(Nanoseconds now) const { return now >= may_search_; }
  // When the next search is due without an event.
  Nanoseconds next_search() const { return next_search_; }
  // A search begins. How long it takes follows from the numbers of all workers, of their slots, and
  // of their `leases`.
  void begin_search(std::size_t leases, Nanoseconds now);
  // The leases of the lane to cut for its waiting CLAIMs, `waiting`: at most one for each idle
  // worker, including leases whose order has yet to be answered. Ends orders that have stood for
  // the length of a lease, or whose lease has no more jobs to give.
  std::vector<Cut> for_idle_workers(const Lane& lane, const WaitingClaims& waiting, Nanoseconds now);

  // ---- For batches that wait ----

  // The cuts to make if this lease of the worker lasts too long: of the lease first, then of leases
  // of its batch behind it. Usually empty, and then without an allocation.
  static std::vector<Cut> for_waiting_batches(RemoteWorker& worker, OutLease& out, Nanoseconds now);

 private:
  // The workers that wait for a lane, may get a lease, and have an idle slot.
  struct Idle {
    GateSet gates;  // that they serve
    std::size_t workers = 0;
  };
  // A lease that is worth a cut, of a worker that answers.
  struct Candidate {
    Nanoseconds to_go;
    Cut cut;
  };
  struct Candidates {
    std::vector<Candidate> worth;
    // How many leases already have an order whose answer may be under way.
    std::size_t ordered = 0;
  };

  Idle idle_workers(const Lane& lane, const WaitingClaims& waiting) const;
  // The candidates at these gates.
  Candidates candidates(const Lane& lane, const GateSet& gates, Nanoseconds now);

  Workers& workers_;
  const WorkerAccounts& accounts_;
  Nanoseconds may_search_;
  Nanoseconds next_search_;
};

}  // namespace locksley::daemon
