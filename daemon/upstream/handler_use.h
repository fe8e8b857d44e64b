// Knows which handlers run jobs of the upstream, so that no handler is replaced meanwhile.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "core/batch/handler.h"
#include "core/sync/mutex.h"

namespace locksley::daemon {

// Counts the leases of each handler that run here. A held handler gets no more leases.
//
// A member of ServingParts (daemon/parts.h), or a part of daemon/work_program.cc; outlives the
// upstream. Any thread. Calls take a mutex for a moment; nothing fails.
class HandlerUse {
 public:
  // False: the handler is held.
  bool enter(const Handler& handler) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    State& state = states_[&handler];
    if (state.is_held) return false;
    ++state.leases;
    return true;
  }
  void leave(const Handler& handler) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    --states_[&handler].leases;
  }

  void hold(const Handler& handler) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    states_[&handler].is_held = true;
  }
  void release(const Handler& handler) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    states_[&handler].is_held = false;
  }
  // Whether no lease of the handler runs. While the handler is held, true stays true.
  bool is_at_rest(const Handler& handler) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return states_[&handler].leases == 0;
  }

 private:
  struct State {
    std::uint64_t leases = 0;
    bool is_held = false;
  };
  Mutex mutex_;
  std::unordered_map<const Handler*, State> states_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon
