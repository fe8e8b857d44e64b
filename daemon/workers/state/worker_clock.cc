#include "daemon/workers/state/worker_clock.h"

#include <chrono>

namespace locksley::daemon {

void WorkerClock::arm(RemoteWorker& worker, Nanoseconds at) {
  if (worker.due && *worker.due <= at) return;
  disarm(worker);
  worker.due = at;
  timers_.emplace(at, worker.connection);
}

void WorkerClock::disarm(RemoteWorker& worker) {
  if (worker.due) timers_.erase({*worker.due, worker.connection});
  worker.due.reset();
}

Nanoseconds WorkerClock::charge_interval(const RemoteWorker& worker) {
  constexpr Nanoseconds kLongest = std::chrono::seconds(5);  // the time constant of a tenant's usage
  return std::min(worker.lease_time / 3, kLongest);
}

Nanoseconds WorkerClock::judged_from(const RemoteWorker& worker) const {
  // A guess: waiting bytes are read within this time.
  constexpr Nanoseconds kLongest = std::chrono::seconds(1);
  return read_since(worker) + std::min(worker.lease_time / 3, kLongest);
}

std::optional<Nanoseconds> WorkerClock::timeout_of(const RemoteWorker& worker, const OutLease& out) const {
  const auto timeout = out.lease.batch().options().timeout;
  if (timeout.count() == 0) return std::nullopt;
  // A lease that has not begun, or waits again, is checked again after that time.
  const std::optional<Nanoseconds> since = out.lease.has_begun() ? out.timeout.since() : std::nullopt;
  return since.value_or(now_) + timeout + worker.grace + timeout_grace_;
}

std::optional<Nanoseconds> WorkerClock::late_at(const RemoteWorker& worker, const OutLease& out) const {
  const auto due = timeout_of(worker, out);
  if (!due) return std::nullopt;
  const Nanoseconds judged = std::max(*due, judged_from(worker));
  // A command that is still coming, or one after it, may have the result. The bound for each job:
  // as long as workers wait for a reply.
  const SlowCommands& slow = worker.slow_commands;
  if (!slow.began() || *slow.began() > *due) return judged;
  constexpr Nanoseconds kLongest = std::chrono::seconds(30);
  const Nanoseconds latest = std::max(*due, read_since(worker)) + kLongest;
  return std::max(judged, std::min(slow.last_came(worker.heard) + timeout_grace_, latest));
}

}  // namespace locksley::daemon
