#include "daemon/store/compactor.h"

#include <spdlog/logger.h>

#include "core/job.h"
#include "daemon/store/database.h"

namespace locksley::daemon {

void Compactor::start() {
  thread_ = std::thread([this] { run(); });
}

void Compactor::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  database_.give_up_merging();
  thread_.join();
}

void Compactor::set_live_bytes(std::uint64_t bytes) {
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    // Growth needs no look: what is written is live.
    wakes = bytes < live_bytes_ && !is_changed_;
    is_changed_ = is_changed_ || wakes;
    live_bytes_ = bytes;
  }
  if (wakes) changed_.notify_one();
}

void Compactor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_changed_ || stopping_; });
    if (changed_.wait_for(lock, kPause, [this] { return stopping_; })) return;
    is_changed_ = false;
    const std::uint64_t live = live_bytes_;
    lock.unlock();
    if (const std::uint64_t before = database_.disk_bytes(); before > kMostRatio * live + kSlack) {
      const Nanoseconds began = steady_now();
      const auto merged = database_.merge();
      const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(steady_now() - began).count();
      if (merged) {
        log_->info("store: merged files of {} bytes, of which {} were live, into {} in {} ms", before, live,
                   database_.disk_bytes(), took);
      } else {
        log_->warn("store: files could not be merged: {}", merged.error());
      }
    }
    lock.lock();
  }
}

}  // namespace locksley::daemon
