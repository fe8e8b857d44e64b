// A thread that compacts the embedded store once deleted rows take too much space.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "core/sync/mutex.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class RocksEngine;

// Compacts the store's files when deleted rows take too much space. RocksDB drops deleted rows only
// when it compacts, and it compacts only when new rows are written: a queue that fills and empties
// may leave files of many times the live bytes. So when the files are larger than kMostRatio times
// the live bytes plus kSlackMemtables, this class compacts all of them. At that ratio, each byte
// written is rewritten about once.
//
// Owned by the engine. start() and stop(): one thread. set_live_bytes(): any thread. stop() blocks
// until the compaction under way has been aborted. A compaction that fails is logged, and attempted
// again after the next deletion.
class Compactor {
 public:
  static constexpr std::uint64_t kMostRatio = 2;
  static constexpr std::uint64_t kSlackMemtables = 4;      // about as much as the log and the memtables take
  static constexpr auto kPause = std::chrono::seconds(2);  // between two readings of the files' sizes

  Compactor(RocksEngine& engine, std::shared_ptr<spdlog::logger> log)
      : engine_(engine), log_(std::move(log)) {}
  ~Compactor() { stop(); }
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  void start();
  // Aborts a compaction that is under way and ends the thread.
  void stop() LOCKSLEY_EXCLUDES(mutex_);
  // The bytes of all rows that are not deleted. Only a smaller number than before wakes the thread.
  void set_live_bytes(std::uint64_t bytes) LOCKSLEY_EXCLUDES(mutex_);

 private:
  void run() LOCKSLEY_EXCLUDES(mutex_);
  void compact_if_worthwhile(std::uint64_t live_bytes);

  RocksEngine& engine_;
  const std::shared_ptr<spdlog::logger> log_;

  // Written by set_live_bytes(), which comes with each batch; the thread reads both, and resets
  // has_shrunk_.
  std::atomic<std::uint64_t> live_bytes_{0};
  std::atomic<bool> has_shrunk_{false};  // since the thread last measured

  Mutex mutex_;  // held while has_shrunk_ becomes true: the thread that goes to sleep does not miss it
  CondVar changed_;
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace locksley::daemon
