// The link's clock: the present instant, the next check of each worker, and from when on a worker
// is silent or a job is late.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "core/base/job.h"
#include "daemon/workers/state/out_lease.h"
#include "daemon/workers/state/remote_worker.h"

namespace locksley::daemon {

// The owner's clock, and one timer for each worker. It also knows since when the owner reads what
// workers send: while the owner does not read, no worker becomes silent, and no job late.
//
// A member of WorkerLink; one thread. O(log n). Only allocation fails.
class WorkerClock {
 public:
  using Id = std::uint64_t;  // of a connection

  // `timeout_grace`: WorkerLinkOptions::timeout_grace.
  WorkerClock(Nanoseconds now, Nanoseconds timeout_grace) : timeout_grace_(timeout_grace), now_(now) {}
  WorkerClock(const WorkerClock&) = delete;
  WorkerClock& operator=(const WorkerClock&) = delete;

  Nanoseconds now() const { return now_; }
  // An earlier instant counts as the last one.
  void advance(Nanoseconds now) { now_ = std::max(now_, now); }

  // ---- Timers ----

  // The worker is checked at this time, or earlier.
  void arm(RemoteWorker& worker, Nanoseconds at);
  void disarm(RemoteWorker& worker);
  // When the next check of a worker is due; none: no check is.
  std::optional<Nanoseconds> first_due() const {
    return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->first);
  }
  // A worker whose check is due now.
  std::optional<Id> due_worker() const {
    return timers_.empty() || timers_.begin()->first > now_ ? std::nullopt
                                                            : std::optional(timers_.begin()->second);
  }
  // How often the leases of the worker are charged as they run.
  static Nanoseconds charge_interval(const RemoteWorker& worker);

  // ---- Silence and lateness ----

  // The owner reads again, after it has not for a while.
  void listens_again() { listens_since_ = now_; }
  // From when on the worker is silent, if it holds leases and sends nothing.
  Nanoseconds silent_at(const RemoteWorker& worker) const {
    return std::max(worker.heard + worker.lease_time, judged_from(worker));
  }
  // When the time-out of a job of the lease, and the time to report it, are over; none: its jobs
  // have no time-out.
  std::optional<Nanoseconds> timeout_of(const RemoteWorker& worker, const OutLease& out) const;
  // When a job of the lease is late, unless a report of it comes before; none: never.
  std::optional<Nanoseconds> late_at(const RemoteWorker& worker, const OutLease& out) const;

 private:
  // Since when the owner reads from the worker.
  Nanoseconds read_since(const RemoteWorker& worker) const {
    return std::max(listens_since_, worker.is_read ? worker.read_since : now_);
  }
  // Before this instant the silence of the worker does not count.
  Nanoseconds judged_from(const RemoteWorker& worker) const;

  const Nanoseconds timeout_grace_;
  std::set<std::pair<Nanoseconds, Id>> timers_;  // at most one for each worker: RemoteWorker::due
  Nanoseconds now_;
  Nanoseconds listens_since_{};  // before, the owner did not read for a while
};

}  // namespace locksley::daemon
