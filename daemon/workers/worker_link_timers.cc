// What happens when time passes: silent workers, jobs beyond their time-out, CLAIMs that have
// waited.
#include <algorithm>
#include <utility>

#include "core/lane/lane_gates.h"
#include "daemon/workers/worker_link.h"

namespace locksley::daemon {

void WorkerLink::listens_again(Nanoseconds now) {
  holds_.note_absence(clock_.first_due(), now);
  clock_.advance(now);
  clock_.listens_again();
}

std::optional<Nanoseconds> WorkerLink::next_timer() const {
  std::optional<Nanoseconds> next;
  const auto consider = [&next](Nanoseconds at) { next = next ? std::min(*next, at) : at; };
  if (const auto due = clock_.first_due()) consider(*due);
  if (const auto hold = holds_.next()) consider(*hold);
  if (!claims_.waiting().empty() && clock_.now() < holds_.new_life_until()) consider(holds_.new_life_until());
  if (const auto backoff = backoffs_.next()) consider(*backoff);
  if (hurry_at_) consider(*hurry_at_);
  if (show_life_at_) consider(*show_life_at_);
  if (const auto search = orders_.next_search(); search && !claims_.waiting().empty()) consider(*search);
  return next;
}

void WorkerLink::advance(Nanoseconds now) {
  clock_.advance(now);
  // While there was no room, no connection was read.
  if (!has_room() || std::exchange(lacked_room_, false)) clock_.listens_again();
  while (const auto due = clock_.due_worker()) look_at(workers_.at(*due));
  holds_.end(clock_.now());
  if (hurry_at_ && clock_.now() >= *hurry_at_) {
    hurry_at_.reset();
    connections_.hurry();
  }
  if (show_life_at_ && clock_.now() >= *show_life_at_) show_life();
  backoffs_.advance(clock_.now());
  claims_.serve_waiting();
  orders_.cut_for_idle_workers(claims_.waiting());
}

void WorkerLink::show_life() {
  show_life_at_.reset();  // take_ready() sets it again
  for (const Id id : connections_.note_long_waits(clock_.now() - kLongWait)) show_life(id);
}

void WorkerLink::look_at(RemoteWorker& worker) {
  clock_.disarm(worker);
  // What it has sent since is not read.
  if (connections_.is_full(worker.connection)) worker.heard = clock_.now();
  const Nanoseconds silent = clock_.silent_at(worker);
  const bool loses_all = clock_.now() >= silent && !worker.leases.empty();
  // One that is silent gets no other lease before it has sent something. If it lives, it claims
  // again.
  if (worker.waiting && (loses_all || worker.waiting->until <= clock_.now())) claims_.end_with_null(worker);
  if (loses_all) {
    worker.is_silent = true;
    for (const auto& [number, out] : worker.leases) orders_.push_stop(worker, *out);
    leases_.end_all(worker, LeaseEnd::kSilent);
  }
  std::vector<std::uint64_t> late;
  for (const auto& [number, out] : worker.leases) {
    const auto at = clock_.late_at(worker, *out);
    if (at && *at <= clock_.now()) late.push_back(number);
  }
  for (const std::uint64_t number : late) {
    orders_.push_stop(worker, *worker.find(number));
    leases_.end(worker, *worker.find(number), LeaseEnd::kTimedOut);
  }

  if (worker.waiting) clock_.arm(worker, worker.waiting->until);
  if (worker.leases.empty()) return;
  if (clock_.now() - worker.charged >= clock_.charge_interval(worker)) {
    leases_.charge(worker);
    orders_.shorten_leases(worker);
  }
  clock_.arm(worker, worker.charged + clock_.charge_interval(worker));
  clock_.arm(worker, silent);
  for (const auto& [number, out] : worker.leases) {
    if (const auto at = clock_.late_at(worker, *out)) clock_.arm(worker, *at);
  }
}

}  // namespace locksley::daemon
