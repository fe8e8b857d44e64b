#include "daemon/store/embedded/compactor.h"

#include <spdlog/logger.h>

#include "core/base/job.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/store/embedded/rocks_engine.h"

namespace locksley::daemon {

void Compactor::start() {
  thread_ = std::thread([this] { run(); });
}

void Compactor::stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  engine_.abort_compaction();
  thread_.join();
  // The writer's last groups may have to make room.
  engine_.allow_compaction();
}

void Compactor::set_live_bytes(std::uint64_t bytes) {
  // Growth needs no compaction: the new bytes are live.
  const bool shrinks = bytes < live_bytes_.exchange(bytes);
  if (!shrinks || has_shrunk_) return;
  {
    const MutexLock lock(mutex_);
    has_shrunk_ = true;
  }
  changed_.notify_one();
}

void Compactor::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!has_shrunk_ && !stopping_) changed_.wait(mutex_);
    const auto resume = now() + kPause;
    while (!stopping_ && changed_.wait_until(mutex_, resume) == std::cv_status::no_timeout) {
    }
    if (stopping_) return;
    has_shrunk_ = false;
    const std::uint64_t live_bytes = live_bytes_;
    lock.unlock();
    compact_if_worthwhile(live_bytes);
    lock.lock();
  }
}

void Compactor::compact_if_worthwhile(std::uint64_t live_bytes) {
  const std::uint64_t before = engine_.usage().bytes;
  if (before <= kMostRatio * live_bytes + kSlackMemtables * engine_.sizes().memtable) return;
  const Nanoseconds began = steady_now();
  const auto compacted = engine_.compact();
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(steady_now() - began).count();
  if (compacted) {
    LogLine("store: compacted")
        .with("bytes_before", before)
        .with("live_bytes", live_bytes)
        .with("bytes_after", engine_.usage().bytes)
        .with("took_ms", took)
        .write(*log_, spdlog::level::info);
  } else {
    LogLine("store: compaction failed")
        .with("error", compacted.error().what)
        .write(*log_, spdlog::level::warn);
  }
}

}  // namespace locksley::daemon
