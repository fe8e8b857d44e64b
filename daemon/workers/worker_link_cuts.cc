// Stealing over the wire: the lease that would end last is cut, for workers that have nothing to do.
#include <algorithm>

#include "core/lane/lane_view.h"
#include "daemon/workers/worker_link.h"

namespace locksley::daemon {

namespace {

// The gates of the CLAIMs whose jobs would run at once, on a slot without a lease.
GateSet gates_of_idle_slots(const WaitingClaims& waiting) {
  const auto runs_at_once = [](const WaitingClaims::Group::value_type& waits) {
    const RemoteWorker& worker = *waits.second;
    const ClaimCommand& claim = worker.waiting->claim;
    const auto slot = claim.slot ? claim.slot : worker.slots.find(claim.width);
    return slot && worker.slots.leases(*slot) == 0;
  };
  GateSet gates;
  for (const auto& [of_group, claims] : waiting.groups()) {
    if (std::ranges::any_of(claims, runs_at_once)) gates.add(of_group);
  }
  return gates;
}

}  // namespace

void WorkerLink::plan_cuts() {
  if (waiting_.empty() || stats_.leases == 0 || is_draining_ || now_ < next_plan_) return;
  next_plan_ = now_ + plan_interval();
  for (const auto& [lane, waiting] : waiting_) {
    const Idle idle = idle_workers(*lane, waiting);
    if (idle.workers == 0) continue;
    const GateSet of_idle_slots = gates_of_idle_slots(waiting);
    std::size_t ordered = 0;
    std::vector<Candidate> worth = candidates(*lane, idle.gates, ordered);
    // The lease that would end last comes first.
    std::ranges::make_heap(worth, {}, &Candidate::to_go);
    while (ordered < idle.workers && !worth.empty()) {
      std::ranges::pop_heap(worth, {}, &Candidate::to_go);
      const Candidate next = worth.back();
      worth.pop_back();
      const Lease& lease = next.out->lease;
      if (!lane->view().has_place(lease.batch())) continue;
      // A last job that moved to wait behind another one could move for ever.
      if (lease.held().size() == 1 && !of_idle_slots.has(lease.gate())) continue;
      next.out->cut = OutLease::Cut{.at = RemoteWorker::middle(*next.out).value(), .planned = now_};
      ++stats_.cut_orders;
      ++ordered;
      push_orders(*next.worker);
    }
  }
}

WorkerLink::Idle WorkerLink::idle_workers(const Lane& lane, const WaitingClaims& waiting) const {
  Idle idle;
  for (const auto& [gates, claims] : waiting.groups()) {
    if (lane.hints().has_remote_work(gates)) continue;
    const std::size_t before = idle.workers;
    for (const auto& [order, worker] : claims) {
      // A slot that has become idle may not be the one that the CLAIM names. A worker with PUSH will
      // name it by the time that the cut brings jobs.
      const bool is_idle = worker->slots.idle() != 0 && (worker->wants_pushes || waits_idle(*worker));
      if (is_idle && room_of(worker->account) != 0) ++idle.workers;
    }
    if (idle.workers != before) idle.gates.add(gates);
  }
  return idle;
}

std::vector<WorkerLink::Candidate> WorkerLink::candidates(const Lane& lane, const GateSet& gates,
                                                          std::size_t& ordered) {
  std::vector<Candidate> worth;
  for (auto& [id, worker] : workers_) {
    if (worker.leases.empty()) continue;
    const bool takes_orders = worker.takes_orders(now_);
    const Nanoseconds least = 2 * worker.quantum() + 10 * worker.round_trip.mean();
    const std::vector<Nanoseconds> times = worker.times_to_go(now_);
    for (const auto& [number, out] : worker.leases) {
      if (&out->lease.lane() != &lane || !gates.has(out->lease.gate())) continue;
      // A worker that does not answer keeps others from a cut for no longer than a lease lasts, and no longer than the
      // lease has jobs to give.
      if (out->cut &&
          (now_ - out->cut->planned >= worker.lease_time || !RemoteWorker::first_not_started(*out)))
        out->cut.reset();
      if (out->cut) ++ordered;
      if (out->cut || out->cut_pushed || !takes_orders) continue;
      const Nanoseconds to_go = times[out->occupation.first];
      if (to_go > least && RemoteWorker::middle(*out)) worth.push_back({to_go, &worker, out.get()});
    }
  }
  return worth;
}

}  // namespace locksley::daemon
