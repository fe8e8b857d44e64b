// What happens when time passes: silent workers, jobs beyond their time-out, CLAIMs that have
// waited.
#include <algorithm>
#include <utility>

#include "core/lane/lane_gates.h"
#include "daemon/workers/worker_link.h"

namespace locksley::daemon {

Nanoseconds WorkerLink::charge_interval(const RemoteWorker& worker) const {
  constexpr Nanoseconds kLongest = std::chrono::seconds(5);  // the time constant of a tenant's usage
  return std::min(worker.lease_time / 3, kLongest);
}

Nanoseconds WorkerLink::judged_from(const RemoteWorker& worker) const {
  // A guess: the bytes that wait to be read are read in less.
  constexpr Nanoseconds kLongest = std::chrono::seconds(1);
  return read_since(worker) + std::min(worker.lease_time / 3, kLongest);
}

void WorkerLink::listens_again(Nanoseconds now) {
  note_absence(now);
  listens_since_ = now_ = std::max(now_, now);
}

void WorkerLink::charge_leases(RemoteWorker& worker) {
  worker.charged = now_;
  for (const auto& [number, out] : worker.leases)
    out->lease.charge_so_far(worker.slots.so_far(out->occupation, now_));
}

void WorkerLink::end_backoffs(Lane& lane, Nanoseconds until) {
  const auto next = lane.end_waits(until);
  if (next) {
    const Nanoseconds wait = std::max(Nanoseconds{0}, *next - steady_now());
    backoffs_[&lane] = {.due = now_ + wait, .until = *next};
  } else {
    backoffs_.erase(&lane);
  }
}

void WorkerLink::hold(const std::vector<HandlerPlace>& places, Nanoseconds until) {
  for (const HandlerPlace& place : places) {
    place.lane->gates().set_hold(place.gate, true);
    Nanoseconds& end = held_[{place.lane, place.gate}];
    end = std::max(end, until);
  }
}

void WorkerLink::end_holds(Nanoseconds by) {
  std::erase_if(held_, [by](const auto& held) {
    if (held.second > by) return false;
    held.first.first->gates().set_hold(held.first.second, false);
    return true;
  });
}

void WorkerLink::arm(RemoteWorker& worker, Nanoseconds at) {
  if (worker.due && *worker.due <= at) return;
  disarm(worker);
  worker.due = at;
  timers_.emplace(at, worker.connection);
}

void WorkerLink::disarm(RemoteWorker& worker) {
  if (worker.due) timers_.erase({*worker.due, worker.connection});
  worker.due.reset();
}

std::optional<Nanoseconds> WorkerLink::timeout_of(const RemoteWorker& worker, const OutLease& out) const {
  const auto timeout = out.lease.batch().options().timeout;
  if (timeout.count() == 0) return std::nullopt;
  // A lease that has not begun, or waits again, is looked at again after that time.
  const std::optional<Nanoseconds> since = out.lease.has_begun() ? out.timeout.since() : std::nullopt;
  return since.value_or(now_) + timeout + worker.grace + options_.timeout_grace;
}

std::optional<Nanoseconds> WorkerLink::late_at(const RemoteWorker& worker, const OutLease& out) const {
  const auto due = timeout_of(worker, out);
  if (!due) return std::nullopt;
  const Nanoseconds judged = std::max(*due, judged_from(worker));
  // A command that is still coming, or one after it, may have the result. The bound for each job:
  // as long as workers wait for a reply.
  const SlowCommands& slow = worker.slow_commands;
  if (!slow.began() || *slow.began() > *due) return judged;
  constexpr Nanoseconds kLongest = std::chrono::seconds(30);
  const Nanoseconds latest = std::max(*due, read_since(worker)) + kLongest;
  return std::max(judged, std::min(slow.last_came(worker.heard) + options_.timeout_grace, latest));
}

std::optional<Nanoseconds> WorkerLink::next_timer() const {
  std::optional<Nanoseconds> next;
  const auto consider = [&next](Nanoseconds at) { next = next ? std::min(*next, at) : at; };
  if (!timers_.empty()) consider(timers_.begin()->first);
  for (const auto& [gate, until] : held_) consider(until);
  if (!waiting_.empty() && now_ < new_life_until_) consider(new_life_until_);
  for (const auto& [lane, backoff] : backoffs_) consider(backoff.due);
  if (hurry_at_) consider(*hurry_at_);
  if (show_life_at_) consider(*show_life_at_);
  if (!waiting_.empty() && stats_.leases != 0 && !is_draining_) consider(planner_.next_search());
  return next;
}

void WorkerLink::advance(Nanoseconds now) {
  now_ = std::max(now_, now);
  // While there was no room, no connection was read.
  if (!has_room() || std::exchange(lacked_room_, false)) listens_since_ = now_;
  while (!timers_.empty() && timers_.begin()->first <= now_) look_at(workers_.at(timers_.begin()->second));
  end_holds(now_);
  if (hurry_at_ && now_ >= *hurry_at_) {
    hurry_at_.reset();
    connections_.hurry();
  }
  if (show_life_at_ && now_ >= *show_life_at_) show_life();
  std::vector<std::pair<Lane*, Nanoseconds>> over;
  for (const auto& [lane, backoff] : backoffs_) {
    if (backoff.due <= now_) over.emplace_back(lane, backoff.until);
  }
  for (const auto& [lane, until] : over) {
    end_backoffs(*lane, until);
    lane->wake();
  }
  serve_waiting();
  cut_for_idle_workers();
}

void WorkerLink::show_life() {
  show_life_at_.reset();  // take_ready() sets it again
  for (const Id id : connections_.note_long_waits(now_ - kLongWait)) show_life(id);
}

void WorkerLink::look_at(RemoteWorker& worker) {
  disarm(worker);
  // What it has sent since is not read.
  if (connections_.is_full(worker.connection)) worker.heard = now_;
  const Nanoseconds silent = std::max(worker.heard + worker.lease_time, judged_from(worker));
  const bool loses_all = now_ >= silent && !worker.leases.empty();
  // One that is silent gets no other lease before it has sent something. If it lives, it claims
  // again.
  if (worker.waiting && (loses_all || worker.waiting->until <= now_)) {
    end_wait(worker);
    connections_.reply(worker.connection).null();
  }
  if (loses_all) {
    worker.is_silent = true;
    for (const auto& [number, out] : worker.leases) push_stop(worker, *out);
    end_all(worker, End::kSilent);
  }
  std::vector<std::uint64_t> late;
  for (const auto& [number, out] : worker.leases) {
    const auto at = late_at(worker, *out);
    if (at && *at <= now_) late.push_back(number);
  }
  for (const std::uint64_t number : late) {
    push_stop(worker, *worker.find(number));
    end_lease(worker, *worker.find(number), End::kTimedOut);
  }

  if (worker.waiting) arm(worker, worker.waiting->until);
  if (worker.leases.empty()) return;
  if (now_ - worker.charged >= charge_interval(worker)) {
    charge_leases(worker);
    shorten_leases(worker);
  }
  arm(worker, worker.charged + charge_interval(worker));
  arm(worker, silent);
  for (const auto& [number, out] : worker.leases) {
    if (const auto at = late_at(worker, *out)) arm(worker, *at);
  }
}

}  // namespace locksley::daemon
