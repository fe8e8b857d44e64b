#include "daemon/base/machine/pool_resizer.h"

#include <spdlog/logger.h>

#include <system_error>
#include <utility>

#include "daemon/base/log/log_line.h"

namespace locksley::daemon {

PoolResizer::PoolResizer(Pool& pool, std::shared_ptr<spdlog::logger> log)
    : pool_(pool), log_(std::move(log)), wanted_(pool.workers()) {}

void PoolResizer::resize(std::uint32_t workers) {
  // Both are checked: other changes may follow one that waits for workers to leave, and a failed
  // change is tried again.
  if (std::exchange(wanted_, workers) == workers && pool_.workers() == workers) return;
  const auto change = [this, workers](std::jthread before) {
    if (before.joinable()) before.join();
    try {
      pool_.set_workers(workers);
    } catch (const std::system_error& error) {
      report_failure(workers, error.what());
    }
  };
  try {
    last_ = std::jthread(change, std::move(last_));
  } catch (const std::system_error& error) {
    report_failure(workers, error.what());
  }
}

void PoolResizer::report_failure(std::uint32_t workers, const char* reason) const {
  LogLine("pool.workers: could not start as many threads")
      .with("wanted", workers)
      .with("running", pool_.workers())
      .with("error", reason)
      .write(*log_, spdlog::level::err);
}

}  // namespace locksley::daemon
