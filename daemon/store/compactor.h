#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Database;

// Keeps the store's files from growing beyond what is in them. RocksDB removes what was deleted when it
// merges files, and does so when there are new writes; of a queue that fills and empties it may keep many
// times what is live. So when the files take more than kMostRatio times what is live, and kSlack, it merges
// them all: at that ratio a byte that is written is rewritten about once.
//
// Owned by the Store, with a thread of its own that sleeps until it is told of something. A failure is
// logged, and tried again when the next change comes.
class Compactor {
 public:
  static constexpr std::uint64_t kMostRatio = 2;
  static constexpr std::uint64_t kSlack = 256U << 20;      // the log and the tables in memory, about
  static constexpr auto kPause = std::chrono::seconds(2);  // between two looks at the disk

  Compactor(Database& database, std::shared_ptr<spdlog::logger> log)
      : database_(database), log_(std::move(log)) {}
  ~Compactor() { stop(); }
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  void start();
  // Gives up a merge that is under way.
  void stop();
  // [any thread] So many bytes are wanted.
  void set_live_bytes(std::uint64_t bytes);

 private:
  void run();

  Database& database_;
  const std::shared_ptr<spdlog::logger> log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::uint64_t live_bytes_ = 0;
  bool is_changed_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace locksley::daemon
