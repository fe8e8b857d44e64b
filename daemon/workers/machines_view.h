// The view of remote workers for the HTTP pages, the metrics and WORKERS.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/histogram.h"
#include "core/base/job.h"
#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/workers/interface/worker_link_stats.h"

namespace locksley::daemon {

// A machine, or a program, that has joined.
struct MachineView {
  std::uint64_t id = 0;  // number of its connection
  std::string name;
  std::string user;
  std::string peer;                   // its address and port
  std::vector<std::string> handlers;  // that it serves
  std::uint32_t slots = 0;
  std::uint32_t busy = 0;  // slots with a lease
  std::uint64_t leases = 0;
  std::uint64_t jobs = 0;                         // jobs that it has ended since it joined
  std::uint64_t lost = 0;                         // its leases that were lost since it joined
  std::chrono::system_clock::time_point since{};  // when it joined
  Nanoseconds round_trip{};                       // 0: not measured
};

// The part of a lane's work that is on other machines.
struct RemoteLaneView {
  std::uint64_t slots = 0;
  std::uint64_t leases = 0;
  std::uint64_t claims = 0;  // since the start
};

// The remote workers that serve a handler, without silent ones (RemoteWorker::is_silent).
struct RemoteHandlerView {
  std::uint64_t workers = 0;
  std::uint64_t at_limit =
      0;  // of these: workers that get no jobs, since their user holds as many bytes as it may
};

// All remote workers at one moment. Immutable once it is published.
struct MachinesView {
  std::vector<MachineView> machines;                         // in the order in which they joined
  std::map<std::string, RemoteLaneView, std::less<>> lanes;  // lanes that remote workers serve or have served
  // Each handler for remote workers, also those that no machine serves.
  std::map<std::string, RemoteHandlerView, std::less<>> handlers;
  WorkerLinkStats stats;
  DurationHistogram::Snapshot settle_time;  // from a SETTLE to its reply
  bool is_open = false;                     // whether the port is open
};

// The last view that the link thread has published. Any thread; the mutex is held for a copy of a
// pointer.
class MachinesBoard {
 public:
  using View = std::shared_ptr<const MachinesView>;

  // Never null.
  View get() const LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return view_;
  }
  void set(View view) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    view_.swap(view);
  }

 private:
  mutable Mutex mutex_;
  View view_ LOCKSLEY_GUARDED_BY(mutex_) = std::make_shared<MachinesView>();
};

}  // namespace locksley::daemon
