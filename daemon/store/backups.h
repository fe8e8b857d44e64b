// Copies of the store in folders of their own, made while it serves: the command BACKUP.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/store/engine/engine.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Makes one copy at a time, on a thread of its own, and each one whole or not at all: a copy has
// its name once all of it is on the disk. Until then its folder is kUnfinished, which is removed
// after a failure, and by the next copy after a crash. A lock on the directory keeps other daemons
// from making copies there meanwhile.
//
// Owned by the Store; the Engine outlives it. make() and stop(): one thread; stats(): any thread.
// make() blocks for a few system calls, stop() until the copy that is being made has been given up,
// about the time of a sync. Nothing throws.
class Backups {
 public:
  static constexpr const char* kUnfinished = ".unfinished-backup";

  Backups(Engine& engine, std::shared_ptr<spdlog::logger> log) : engine_(engine), log_(std::move(log)) {}
  ~Backups() { stop(); }
  Backups(const Backups&) = delete;
  Backups& operator=(const Backups&) = delete;

  // The copy's folder, or an error reply: `ERR` for a copy that is refused, `STORE` for one that
  // failed.
  using Result = std::expected<std::string, std::string>;
  using Done = std::move_only_function<void(Result)>;
  // Begins a copy of all committed rows: the folder `name` in `directory`, which is created if its
  // parent exists. `done` is called once, on the thread that copies. If make() returns an error,
  // which is an error reply, no copy was begun, and `done` is not called.
  std::expected<void, std::string> make(const std::string& directory, const std::string& name, Done done)
      LOCKSLEY_EXCLUDES(mutex_);
  // Why make() would refuse these, whatever the engine and the disk say: an error reply; empty: it
  // would not.
  static std::string problem_of(std::string_view directory, std::string_view name);
  // After stop(), make() refuses.
  void stop() LOCKSLEY_EXCLUDES(mutex_);

  struct Stats {
    std::uint64_t made = 0;
    std::uint64_t failed = 0;    // refused ones not included
    std::int64_t last_made = 0;  // when the last one that was made was begun: seconds since 1970; 0: none
  };
  Stats stats() const LOCKSLEY_EXCLUDES(mutex_);

 private:
  // These run on the thread that copies.
  void run(const std::string& directory, const std::string& name, const std::stop_token& stop, Done done)
      LOCKSLEY_EXCLUDES(mutex_);
  Result copy(const std::string& directory, const std::string& name, const std::stop_token& stop);

  Engine& engine_;
  const std::shared_ptr<spdlog::logger> log_;

  mutable Mutex mutex_;
  bool is_making_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  bool is_stopped_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  Stats stats_ LOCKSLEY_GUARDED_BY(mutex_);

  std::jthread thread_;  // of the last copy; last: it uses all of the above
};

}  // namespace locksley::daemon
