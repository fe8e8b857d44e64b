// The CLAIMs that wait for jobs of one lane.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "core/lane/lane_gates.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/worker_accounts.h"

namespace locksley::daemon {

// The CLAIMs of a group want the same gates. So one search for jobs is enough for a group, and
// CLAIMs for which there are no jobs take no time, however many they are.
//
// Owned by ClaimDesk. One thread. The workers outlive their CLAIMs here.
class WaitingClaims {
 public:
  // By the number of their user's account, then by WaitingClaim::order.
  using Group = std::map<std::pair<std::uint64_t, std::uint64_t>, RemoteWorker*>;

  // `gates`: the lane's gates that the CLAIM wants. Needs: the worker's CLAIM waits, and was not
  // added.
  void add(RemoteWorker& worker, const GateSet& gates);
  // Needs: the CLAIM still waits. Without effect if it is not here.
  void remove(const RemoteWorker& worker, const GateSet& gates);
  bool empty() const { return groups_.empty(); }
  const std::map<GateSet, Group>& groups() const { return groups_; }

  using HasJobs = std::function<bool(const GateSet&)>;
  using HasRoom = std::function<bool(const WorkerAccount&)>;
  // Called with each CLAIM. It may remove that one, and after the last one this object. False: no
  // more are visited.
  using Visit = std::function<bool(RemoteWorker&)>;
  // Visits the CLAIMs by WaitingClaim::order; skips a CLAIM if, at its turn, there are no jobs for
  // it, or its user has no room. Takes O(groups + users of groups with jobs), and O(log) for each
  // visited CLAIM.
  void visit(const HasJobs& has_jobs, const HasRoom& has_room, const Visit& visit) const;

 private:
  std::map<GateSet, Group> groups_;  // none is empty
};

}  // namespace locksley::daemon
