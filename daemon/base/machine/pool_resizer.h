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

// Gives the pool the number of workers that it was last told. A worker that leaves first ends the
// job that it runs, so a change may take as long as a job. Each change runs on its own thread,
// which first waits for the end of the previous one.
//
// Owned by Reconfiguration; the pool outlives it. One thread. The destructor blocks until the last
// change has ended, and so does resize() in the one case that the system refuses its thread. Where
// threads cannot be started, the log says so, and the pool has the workers that it got.
class PoolResizer {
 public:
  // The pool has been started.
  PoolResizer(Pool& pool, std::shared_ptr<spdlog::logger> log);
  PoolResizer(const PoolResizer&) = delete;
  PoolResizer& operator=(const PoolResizer&) = delete;

  // `workers`: as Pool::set_workers() has it.
  void resize(std::uint32_t workers);

 private:
  void report_failure(std::uint32_t workers, const char* reason) const;

  Pool& pool_;
  const std::shared_ptr<spdlog::logger> log_;
  // The number of the last call. The pool may have another one until that change has ended.
  std::uint32_t wanted_;
  std::jthread last_;  // of the last change; it joins that of the change before
};

}  // namespace locksley::daemon
