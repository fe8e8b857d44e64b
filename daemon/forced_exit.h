// The end of a daemon whose jobs do not end.
#pragma once

#include <memory>
#include <thread>

#include "core/sync/mutex.h"
#include "core/sync/thread_annotations.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Store;

// A deadline for the running jobs when a daemon with a store ends: the workers have kJobsGrace,
// from its construction, to end their jobs. If it is not destroyed by then, it writes the results
// that they have published, and ends the process; the other jobs run again after the next start.
// Without a store it does nothing, and the end waits for the jobs, since they would be lost.
//
// On the stack of stop() (main.cc), around Pool::stop(). The destructor waits for its thread, which
// does not block.
class ForcedExit {
 public:
  // `store`, which may be null, and `log` are used by its thread.
  ForcedExit(Store* store, int exit_code, std::shared_ptr<spdlog::logger> log);
  ~ForcedExit();
  ForcedExit(const ForcedExit&) = delete;
  ForcedExit& operator=(const ForcedExit&) = delete;

 private:
  // False if the time ran out first.
  bool wait_for_jobs();

  Mutex mutex_;
  CondVar ended_;
  bool have_jobs_ended_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // none without a store
};

}  // namespace locksley::daemon
