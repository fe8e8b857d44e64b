#include "daemon/workers/state/cut_planner.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/lane/lane_view.h"

namespace locksley::daemon {

namespace {

// The waiting CLAIMs of one lane that would run a job at once, on a slot without a lease. Lives for
// one search.
class IdleSlots {
 public:
  // O(CLAIMs).
  IdleSlots(const WaitingClaims& waiting, Nanoseconds now) {
    for (const auto& [gates, claims] : waiting.groups()) {
      std::size_t free = 0;
      for (const auto& [order, worker] : claims) {
        if (!runs_at_once(*worker)) continue;
        const bool is_held_up = worker->held_up && now - *worker->held_up < worker->lease_time;
        slots_.push_back({.gates = &gates, .worker = worker, .is_held_up = is_held_up});
        // Two of a group are enough: at least one of them is not the worker of the lease.
        if (!is_held_up && ++free == 2) break;
      }
    }
  }
  bool have(GateId gate) const {
    return std::ranges::any_of(slots_, [&](const Slot& slot) { return slot.gates->has(gate); });
  }
  // Whether there are idle slots on other machines that are not known to be held up.
  bool have_elsewhere(GateId gate, const RemoteWorker& than) const {
    return std::ranges::any_of(slots_, [&](const Slot& slot) {
      return slot.worker != &than && !slot.is_held_up && slot.gates->has(gate);
    });
  }

 private:
  struct Slot {
    const GateSet* gates;
    const RemoteWorker* worker;
    bool is_held_up;
  };
  static bool runs_at_once(const RemoteWorker& worker) {
    const ClaimCommand& claim = worker.waiting->claim;
    const auto slot = claim.slot ? claim.slot : worker.slots.find(claim.width);
    return slot && worker.slots.leases(*slot) == 0;
  }

  std::vector<Slot> slots_;
};

// Whether the cut helps: the jobs that go back have a place to run, and do not just wait elsewhere.
bool is_of_use(const CutPlanner::Cut& cut, const IdleSlots& idle) {
  const Lease& lease = cut.out->lease;
  const std::uint64_t kept = lease.held().count_below(cut.at);
  // A last job that only moves to wait behind another one could move for ever.
  if (lease.held().size() - kept == 1 && !idle.have(lease.gate())) return false;
  // A lease that goes back whole frees its own place.
  if (kept != 0) return lease.lane().view().has_place(lease.batch());
  // The machine is held up by its own or other jobs, so its other slots would not run these jobs
  // either.
  return !lease.has_begun() || idle.have_elsewhere(lease.gate(), *cut.worker);
}

// Whether jobs of other batches wait for slots of the lease: they are queued, or are leased behind
// it.
bool others_wait(RemoteWorker& worker, OutLease& out) {
  const Lane& lane = out.lease.lane();
  const auto served = std::ranges::find(worker.lanes, &lane, &ServedLane::lane);
  if (served != worker.lanes.end() && lane.hints().has_remote_work(served->gates) &&
      out.lease.others_wait(served->gates))
    return true;
  return std::ranges::any_of(
      worker.behind(out), [&](const OutLease* other) { return &other->lease.batch() != &out.lease.batch(); });
}

}  // namespace

void CutPlanner::begin_search(std::size_t leases, Nanoseconds now) {
  // A search costs some 100 ns for each lease and worker, and 1 ns for each slot: at most a tenth
  // of a processor's time.
  const std::uint64_t slots = accounts_.of_all().slots;
  const std::chrono::microseconds visits(static_cast<std::int64_t>(leases + workers_.size() + slots / 100));
  may_search_ = now + std::chrono::milliseconds(1) + visits;
  next_search_ = now + std::chrono::milliseconds(10) + visits;
}

std::vector<CutPlanner::Cut> CutPlanner::for_idle_workers(const Lane& lane, const WaitingClaims& waiting,
                                                          Nanoseconds now) {
  std::vector<Cut> cuts;
  const Idle idle = idle_workers(lane, waiting);
  if (idle.workers == 0) return cuts;
  const IdleSlots idle_slots(waiting, now);
  auto [worth, ordered] = candidates(lane, idle.gates, now);
  // The lease that would end last comes first.
  std::ranges::make_heap(worth, {}, &Candidate::to_go);
  while (ordered + cuts.size() < idle.workers && !worth.empty()) {
    std::ranges::pop_heap(worth, {}, &Candidate::to_go);
    const Cut next = worth.back().cut;
    worth.pop_back();
    if (is_of_use(next, idle_slots)) cuts.push_back(next);
  }
  return cuts;
}

CutPlanner::Idle CutPlanner::idle_workers(const Lane& lane, const WaitingClaims& waiting) const {
  Idle idle;
  for (const auto& [gates, claims] : waiting.groups()) {
    if (lane.hints().has_remote_work(gates)) continue;
    const std::size_t before = idle.workers;
    for (const auto& [order, worker] : claims) {
      // A slot that has become idle may not be the one that the CLAIM names. A worker with PUSH
      // will name it by the time that the cut brings jobs.
      const bool is_idle = worker->slots.idle() != 0 && (worker->wants_pushes || worker->waits_idle());
      if (is_idle && accounts_.room_for_lease(worker->account) != 0) ++idle.workers;
    }
    if (idle.workers != before) idle.gates.add(gates);
  }
  return idle;
}

CutPlanner::Candidates CutPlanner::candidates(const Lane& lane, const GateSet& gates, Nanoseconds now) {
  Candidates found;
  const auto is_wanted = [&](const OutLease& out) {
    return &out.lease.lane() == &lane && gates.has(out.lease.gate());
  };
  for (auto& [id, worker] : workers_) {
    if (worker.leases.empty()) continue;
    bool owes_answer = false;
    for (const auto& [number, out] : worker.leases) {
      // An order ends after the length of a lease, or when the lease has no more jobs to give.
      const std::optional<LeaseOrders::Cut>& cut = out->orders.cut;
      if (cut && (now - cut->planned >= worker.lease_time || !out->first_not_started()))
        out->orders.end_cut();
      if (!cut) continue;
      if (now >= worker.answer_due(*out)) {
        owes_answer = true;
      } else if (is_wanted(*out)) {
        ++found.ordered;
      }
    }
    // Otherwise a worker that does not answer in time would block cuts with each of its leases, one
    // after the other.
    if (owes_answer || !worker.takes_orders(now)) continue;
    const std::vector<Nanoseconds> times = worker.times_to_go(now);
    for (const auto& [number, out] : worker.leases) {
      if (!is_wanted(*out) || out->orders.is_cut()) continue;
      const Nanoseconds to_go = times[out->occupation.first];
      if (to_go <= worker.time_of_cut()) continue;
      if (const auto at = out->middle()) found.worth.push_back({to_go, {&worker, out.get(), *at}});
    }
  }
  return found;
}

std::vector<CutPlanner::Cut> CutPlanner::for_waiting_batches(RemoteWorker& worker, OutLease& out,
                                                             Nanoseconds now) {
  if (!out.lease.has_begun() || out.timeout.is_displaced() || !worker.is_overdue(out, now)) return {};
  // A worker that has answered, and still seems to hold jobs that have not begun, is not asked
  // again at once.
  if (out.orders.is_cut() || (out.orders.shortened && now - *out.orders.shortened < worker.lease_time))
    return {};
  const auto at = out.first_to_spare();
  if (!at || !worker.takes_orders(now) || !others_wait(worker, out)) return {};
  std::vector<Cut> cuts{{&worker, &out, *at}};
  // Leases that wait behind it were claimed with the same wrong estimate, and also keep one job for
  // each slot.
  for (OutLease* const next : worker.behind(out)) {
    const IndexSet& held = next->lease.held();
    const bool is_alike = &next->lease.batch() == &out.lease.batch() && !next->may_have_begun();
    if (is_alike && !next->orders.is_cut() && held.size() > next->lease.width())
      cuts.push_back({&worker, next, held.at(next->lease.width())});
  }
  return cuts;
}

}  // namespace locksley::daemon
