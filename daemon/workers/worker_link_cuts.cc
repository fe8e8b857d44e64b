// Stealing over the wire: the lease that would end last is cut, for workers that have nothing to do.
#include <algorithm>

#include "daemon/workers/worker_link.h"

namespace locksley::daemon {

void WorkerLink::plan_cuts() {
  if (waiting_.empty() || stats_.leases == 0 || is_draining_ || now_ < next_plan_) return;
  next_plan_ = now_ + plan_interval();
  constexpr std::size_t kMostCuts = 16;  // of a lane at once: each looks at all leases
  for (const auto& [lane, waiting] : waiting_) {
    const Idle idle = idle_workers(*lane, waiting);
    if (idle.workers == 0) continue;
    std::size_t ordered = ordered_cuts(*lane, idle.gates);
    for (std::size_t cuts = 0; ordered < idle.workers && cuts < kMostCuts; ++cuts, ++ordered) {
      const auto [worker, out] = last_to_end(*lane, idle.gates);
      if (out == nullptr) break;
      out->cut = OutLease::Cut{.at = RemoteWorker::middle(*out).value(), .planned = now_};
      ++stats_.cut_orders;
      push_orders(*worker);
    }
  }
}

WorkerLink::Idle WorkerLink::idle_workers(const Lane& lane, const Waiting& waiting) {
  Idle idle;
  for (const auto& [order, worker] : waiting) {
    // The others only want to be early.
    const auto slot = worker->waiting->claim.slot;
    if (slot ? worker->slots.leases(*slot) != 0 : worker->slots.idle() == 0) continue;
    const auto served = std::ranges::find(worker->waiting->lanes, &lane, &ServedLane::lane);
    if (lane.has_remote_work(served->gates)) continue;
    ++idle.workers;
    idle.gates.add(served->gates);
  }
  return idle;
}

std::size_t WorkerLink::ordered_cuts(const Lane& lane, const GateSet& gates) {
  std::size_t ordered = 0;
  for (const auto& [id, worker] : workers_) {
    for (const auto& [number, out] : worker.leases) {
      if (&out->lease.lane() != &lane || !out->cut || !gates.has(out->lease.gate())) continue;
      // A worker that does not answer keeps others from a cut for no longer than a lease lasts.
      if (now_ - out->cut->planned >= worker.lease_time) out->cut.reset();
      if (out->cut) ++ordered;
    }
  }
  return ordered;
}

std::pair<RemoteWorker*, OutLease*> WorkerLink::last_to_end(const Lane& lane, const GateSet& gates) {
  std::pair<RemoteWorker*, OutLease*> last{nullptr, nullptr};
  Nanoseconds longest{0};
  for (auto& [id, worker] : workers_) {
    if (!worker.takes_orders(now_)) continue;
    const Nanoseconds worth = 2 * worker.quantum() + 10 * worker.round_trip.mean();
    for (const auto& [number, out] : worker.leases) {
      if (&out->lease.lane() != &lane || !gates.has(out->lease.gate())) continue;
      if (out->cut || out->cut_pushed || !RemoteWorker::middle(*out)) continue;
      const auto to_go = worker.time_to_go(*out, now_);
      if (!to_go || *to_go <= worth || *to_go <= longest || !lane.has_place(out->lease.batch())) continue;
      longest = *to_go;
      last = {&worker, out.get()};
    }
  }
  return last;
}

}  // namespace locksley::daemon
