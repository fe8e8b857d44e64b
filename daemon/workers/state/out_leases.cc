#include "daemon/workers/state/out_leases.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace locksley::daemon {

OutLease& OutLeases::add(RemoteWorker& worker, std::unique_ptr<OutLease> lease, std::uint32_t first_slot) {
  OutLease& out = *lease;
  out.lease.set_worker(worker.name, &out.shown);
  out.number = ++last_;
  out.reported.leased(out.lease.range());
  out.occupation.name = out.number;
  worker.slots.occupy(out.occupation, first_slot, out.lease.width(), clock_.now());
  if (worker.leases.empty()) worker.heard = clock_.now();  // without leases it did not have to send anything
  worker.leases.emplace(out.number, std::move(lease));
  places_.add(out.number, worker.connection);
  worker.begin_leases(first_slot, out.lease.width(), clock_.now());
  worker.idle_order = 0;
  ++stats_.leases;
  handlers_.add_lease(out.lease.lane());
  worker.account.charge(&WorkerUse::leased_bytes, out.lease.payload_bytes());
  worker.count_splits(out);
  clock_.arm(worker, worker.heard + worker.lease_time);
  clock_.arm(worker, clock_.now() + clock_.charge_interval(worker));
  if (const auto timeout = clock_.timeout_of(worker, out)) clock_.arm(worker, *timeout);
  return out;
}

void OutLeases::charge(RemoteWorker& worker) {
  worker.charged = clock_.now();
  for (const auto& [number, out] : worker.leases)
    out->lease.charge_so_far(worker.slots.so_far(out->occupation, clock_.now()));
}

void OutLeases::excuse(RemoteWorker& worker) {
  worker.given_up = last_;
  worker.is_silent = true;
}

void OutLeases::end(RemoteWorker& worker, OutLease& out, LeaseEnd reason) {
  end(worker, out, reason, worker.slots.in_front(out.occupation));
}

void OutLeases::end(RemoteWorker& worker, OutLease& out, LeaseEnd reason, std::uint32_t in_front) {
  const auto [first_slot, width] = std::pair(out.occupation.first, out.occupation.width);
  if (reason != LeaseEnd::kReclaimed && out.number <= worker.given_up) reason = LeaseEnd::kSettled;
  out.save_notes();
  const Nanoseconds occupied = worker.slots.release(out.occupation, clock_.now(), out.may_have_begun());
  const bool is_free = out.untouched == OutLease::Untouched::kHeldUp;
  const Nanoseconds service = is_free ? Nanoseconds{0} : occupied;
  stats_.held_up += occupied - service;
  // Payloads that the connection has not sent stay charged. It may be gone.
  if (const auto* const connection = connections_.find(worker.connection)) {
    accounts_.keep_unsent(worker.connection, worker.user, out.lease.payload_bytes(), out.reply_end,
                          connection->sent);
  }
  worker.account.charge(&WorkerUse::leased_bytes, -std::uint64_t{out.lease.payload_bytes()});
  --stats_.leases;
  Lane& lane = out.lease.lane();
  const std::shared_ptr<Batch> batch = out.lease.batch().shared_from_this();  // for out.shown
  handlers_.remove_lease(lane);
  // If another lease takes over the jobs, their starts are counted with that lease.
  out.lease.set_started(reason == LeaseEnd::kReclaimed ? 0 : out.begun(in_front));
  if (reason == LeaseEnd::kSettled || reason == LeaseEnd::kReclaimed) {
    out.lease.settle(service);
  } else if (reason == LeaseEnd::kTimedOut) {
    // Jobs that have not started, as the worker reported, have not run.
    const std::uint32_t most =
        out.timeout.is_displaced() && out.reported.has_next() ? out.lease.width() : in_front;
    const std::uint64_t late = std::min<std::uint64_t>(most, out.begun(most));
    (void)out.lease.expire(service, late, losses_);
    stats_.timed_out += late;
    ++worker.lost;
  } else {
    const std::uint64_t running = std::min<std::uint64_t>(in_front, out.begun(in_front));
    const Lease::Lost lost = out.lease.lose(service, running, losses_);
    (reason == LeaseEnd::kSilent ? stats_.lost_by_silence : stats_.lost_by_disconnect) += lost.counted;
    ++worker.lost;
  }
  out.shown.clear();
  worker.count_shown(out);
  worker.count_splits(out);
  if (out.has_crashed) backoffs_.note_crash(lane, clock_.now());
  places_.remove(out.number, out.former);
  worker.leases.erase(out.number);
  worker.begin_leases(first_slot, width, clock_.now());
}

void OutLeases::end_all(RemoteWorker& worker, LeaseEnd reason) {
  // Counted before the first lease ends: a lease that waits behind another one has run nothing, and
  // must not begin now.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> in_front;
  for (const auto& [number, out] : worker.leases)
    in_front.emplace_back(number, worker.slots.in_front(out->occupation));
  for (const auto& [number, count] : in_front) end(worker, *worker.find(number), reason, count);
}

void OutLeases::add_former(const RemoteWorker& worker, OutLease& out, const LeaseName& former) {
  const bool is_name = is_of_this_life(former) && former.number != 0 && former.number < out.number;
  if (is_name && places_.add_former(former.number, {worker.connection, out.number}))
    out.former = former.number;
}

}  // namespace locksley::daemon
