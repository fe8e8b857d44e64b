#include "daemon/forced_exit.h"

#include <spdlog/logger.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "daemon/base/exit_codes.h"
#include "daemon/base/time.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {
constexpr auto kJobsGrace = std::chrono::seconds(2);  // guess
}  // namespace

ForcedExit::ForcedExit(Store* store, int exit_code, std::shared_ptr<spdlog::logger> log) {
  if (store == nullptr) return;
  thread_ = std::thread([this, store, exit_code, log = std::move(log)] {
    if (wait_for_jobs()) return;
    store->stop();
    log->warn("ended while jobs ran: they will run again at the next start");
    log->flush();
    std::_Exit(store->lost() == 0 ? exit_code : kExitIoError);
  });
}

ForcedExit::~ForcedExit() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    have_jobs_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

bool ForcedExit::wait_for_jobs() {
  const Instant deadline = now() + kJobsGrace;
  const MutexLock lock(mutex_);
  while (!have_jobs_ended_) {
    if (now() >= deadline) return false;
    ended_.wait_until(mutex_, deadline);
  }
  return true;
}

}  // namespace locksley::daemon
