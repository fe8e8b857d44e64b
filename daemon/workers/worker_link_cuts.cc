// Cuts. Stealing over the wire: the lease that would end last is cut, for workers that have nothing to do. And leases that last
// too long are cut, for the batches that wait meanwhile.
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

void WorkerLink::shorten_leases(RemoteWorker& worker) {
  for (const auto& [number, out] : worker.leases) shorten(worker, *out);
}

void WorkerLink::shorten(RemoteWorker& worker, OutLease& out) {
  if (!out.lease.has_begun() || out.is_displaced || !worker.is_overdue(out, now_)) return;
  // A worker that has answered, and still holds jobs that have not begun as far as is known, is not asked at once again.
  if (out.cut || out.cut_pushed || (out.shortened && now_ - *out.shortened < worker.lease_time)) return;
  const auto at = RemoteWorker::first_not_started(out);
  if (!at || !worker.takes_orders(now_) || !others_wait(worker, out)) return;
  out.shortened = now_;
  order_cut(out, *at);
  // What waits behind it was claimed with the same wrong estimate, and keeps one job for each slot.
  for (OutLease* const next : worker.behind(out)) {
    const IndexSet& held = next->lease.held();
    const bool is_alike = &next->lease.batch() == &out.lease.batch() && !next->may_have_begun();
    if (is_alike && !next->cut && !next->cut_pushed && held.size() > next->lease.width())
      order_cut(*next, held.at(next->lease.width()));
  }
  push_orders(worker);
}

bool WorkerLink::others_wait(RemoteWorker& worker, OutLease& out) {
  const Lane& lane = out.lease.lane();
  const auto served = std::ranges::find(worker.lanes, &lane, &ServedLane::lane);
  if (served != worker.lanes.end() && lane.hints().has_remote_work(served->gates) &&
      out.lease.others_wait(served->gates))
    return true;
  return std::ranges::any_of(
      worker.behind(out), [&](const OutLease* other) { return &other->lease.batch() != &out.lease.batch(); });
}

void WorkerLink::order_cut(OutLease& out, std::uint64_t at) {
  out.cut = OutLease::Cut{.at = at, .planned = now_};
  ++stats_.cut_orders;
}

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
      order_cut(*next.out, RemoteWorker::middle(*next.out).value());
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
