// The writer of the store: everything that is to be written gathers, and goes to the disk together.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "config/config.h"
#include "core/adaptive_spin.h"
#include "core/batch_journal.h"
#include "core/histogram.h"
#include "daemon/store/ticket.h"
#include "daemon/store/writes.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Database;

// One thread writes: while a group is being synced the next one gathers, so that all who wait at the moment
// share one sync. What nobody waits for, steps of batches above all, goes with the next group, kDelay later
// at most.
//
// When a write or a sync fails nothing is tried again as if nothing had happened: the database is closed,
// opened anew, which makes sure of all that it had acknowledged (Database), and given what is kept;after 1 s
// at first, 5 s at last.Meanwhile error() says what is wrong.
//
// Owned by the Store. put(), error() and the counters: any thread. wait_for_room(): workers.
class GroupCommit {
 public:
  GroupCommit(Database& database, config::Durability durability, std::shared_ptr<spdlog::logger> log);
  ~GroupCommit();
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // From now on it writes. `on_outcome` is called by its thread after a group that somebody may wait for.
  void start(std::function<void(Outcome)> on_outcome);

  // After stop() it does nothing. The outcome of a ticket is told if one of its writes is awaited; an
  // acceptance and an ADD always are.
  Ticket put(StoreWrite write, Urgency urgency);
  static constexpr auto kDelay =
      std::chrono::milliseconds(5);  // half of what is promised; the rest is for the sync

  // Of what gathers; and of the last group that is written, with all before it.
  Ticket gathering() const { return ticket_.load(); }
  Ticket written() const { return written_.load(); }

  // Writes what there is, and ends the thread. If the disk fails, that is lost, with a line in the log.
  void stop();

  // Blocks while so many bytes of results wait for the disk that they would not be there in time; while the
  // disk fails, so many that they would fill the memory.
  void wait_for_room();
  static constexpr std::size_t kMostPending = 4U << 20;
  static constexpr std::size_t kMostPendingWhileItFails = 256U << 20;
  // Results that are on the disk stay in memory, too, up to so many bytes.
  static constexpr std::size_t kResultMemory = 64U << 20;

  // What is wrong with the disk; empty: nothing.
  std::string error() const;

  const DurationHistogram& commit_time() const { return commit_time_; }
  std::uint64_t errors() const { return errors_.load(); }
  // As of the last look, about once a second while there is something to write.
  std::uint64_t disk_bytes() const { return disk_bytes_.load(); }

 private:
  using Writes = std::vector<StoreWrite>;
  enum class Woken { by_work, by_stop };

  void run();
  Woken wait_for_work(std::unique_lock<std::mutex>& lock);
  void commit(std::unique_lock<std::mutex>& lock);
  std::expected<void, std::string> write(const Writes& writes);
  void fail(std::string error, Writes writes);
  void try_again(std::unique_lock<std::mutex>& lock);
  bool has_room() const;
  void look_at_disk();
  void keep_in_memory(const Writes& written);

  Database& database_;
  const config::Durability durability_;
  std::function<void(Outcome)> on_outcome_;  // constant after start()
  const std::shared_ptr<spdlog::logger> log_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;  // the writer
  std::condition_variable room_;  // wait_for_room()
  // Guarded by mutex_:
  Writes gathering_;
  std::atomic<Ticket> ticket_{1};  // of what gathers; read by anyone, who may then know what was put before
  std::size_t pending_bytes_ = 0;
  Nanoseconds due_{};  // when what gathers is written, though nobody waits for it
  bool sleeping_ = false;
  bool stopping_ = false;
  std::string error_;
  // Set under mutex_ when somebody waits for what gathers; read by the writer's look, too.
  std::atomic<bool> urgent_{false};

  // The writer's thread only.
  Writes kept_;  // to be written when the disk works again
  Nanoseconds next_try_{};
  Nanoseconds pause_{};
  Nanoseconds next_sync_{};  // with durability async: when what was written is synced
  bool unsynced_ = false;
  Nanoseconds next_look_{};
  // Results that are on the disk and still in memory, for whoever reads them soon; oldest first.
  struct Recent {
    std::weak_ptr<Batch> batch;
    std::uint64_t end;  // of their rows
    std::size_t bytes;
  };
  std::deque<Recent> recent_;
  std::size_t recent_bytes_ = 0;
  AdaptiveSpin spin_;

  std::atomic<Ticket> written_{
      0};  // writer -> anyone: who reads a ticket here finds its rows in the database

  DurationHistogram commit_time_;
  std::atomic<std::uint64_t> errors_{0};      // writer -> anyone: counters, nothing follows from them
  std::atomic<std::uint64_t> disk_bytes_{0};  // likewise

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace locksley::daemon
