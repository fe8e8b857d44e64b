// The number of the pool's workers, as the configuration changes it while the daemon serves.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "core/pool/pool.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Gives the pool the number of workers of the last resize(). A worker that leaves first ends the
// job that it runs, so a change may take as long as a job. Each change runs on its own thread,
// which first waits for the end of the previous one.
//
// Owned by Reconfiguration; the pool outlives it. One thread. The destructor blocks until the last
// change has ended, and so does resize() if the system cannot start a thread for the change. If the
// pool cannot start its threads, the log says so, and the pool has fewer workers.
class PoolResizer {
 public:
  // The pool has been started.
  PoolResizer(Pool& pool, std::shared_ptr<spdlog::logger> log);
  PoolResizer(const PoolResizer&) = delete;
  PoolResizer& operator=(const PoolResizer&) = delete;

  // `workers`: as for Pool::set_workers().
  void resize(std::uint32_t workers);

 private:
  void report_failure(std::uint32_t workers, const char* reason) const;

  Pool& pool_;
  const std::shared_ptr<spdlog::logger> log_;
  // The number of the last call. The pool may have another number of workers until that change has
  // ended.
  std::uint32_t wanted_;
  std::jthread last_;  // of the last change; joins the thread of the change before
};

}  // namespace locksley::daemon
