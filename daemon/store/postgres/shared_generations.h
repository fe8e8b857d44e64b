// The state that the writer of a ServerEngine and its upkeep share. Internal to
// daemon/store/postgres.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/postgres/generations.h"

namespace locksley::daemon {

// The mutex is held by each transaction that depends on the generations or changes them: the
// writer's, and those of the upkeep.
struct SharedGenerations {
  Mutex mutex;
  Generations value LOCKSLEY_GUARDED_BY(mutex);
  // The outcome of a change is unknown: they must be read anew.
  bool are_unknown LOCKSLEY_GUARDED_BY(mutex) = true;

  // For the upkeep. A busy writer has the mutex nearly always, so it lets the upkeep go first
  // between two groups. False: the writer has not done so for 50 ms; the upkeep does not wait for a
  // writer that waits for a server.
  bool lock_between_groups() LOCKSLEY_TRY_ACQUIRE(true, mutex) {
    constexpr auto kPatience = std::chrono::milliseconds(50);
    upkeep_waits_ = true;
    for (const Instant until = now() + kPatience; now() < until; std::this_thread::sleep_for(kPause)) {
      if (!mutex.try_lock()) continue;
      upkeep_waits_ = false;
      return true;
    }
    upkeep_waits_ = false;
    return false;
  }
  // For the writer, before it locks the mutex: waits while the upkeep waits for it, but not for
  // long.
  void let_upkeep_go_first() const {
    constexpr auto kPatience =
        std::chrono::milliseconds(2);  // guess: the upkeep's thread gets a processor meanwhile
    if (!upkeep_waits_) return;
    for (const Instant until = now() + kPatience; upkeep_waits_ && now() < until;)
      std::this_thread::sleep_for(kPause);
  }

 private:
  static constexpr auto kPause = std::chrono::microseconds(50);
  // A hint for the writer: if it reads the value of a moment ago, the upkeep waits for another
  // group, or the writer for nothing.
  std::atomic<bool> upkeep_waits_ = false;
};

// In bytes. The tables are measured from time to time. Any thread.
class TableSizes {
 public:
  // `least`: how many bytes a generation has before the next one begins, however few are live.
  explicit TableSizes(std::uint64_t least) : least_(least) {}

  void set_live(std::uint64_t bytes) { live_ = bytes; }
  void set_index(std::uint64_t bytes) { index_ = bytes; }
  void set_tables(std::uint64_t names, std::uint64_t payloads, std::uint64_t results) {
    names_ = names;
    payloads_ = payloads;
    results_ = results;
  }
  std::uint64_t live() const { return live_; }
  std::uint64_t index() const { return index_; }
  std::uint64_t tables() const { return index_ + names_ + payloads_ + results_; }
  std::uint64_t least() const { return least_; }
  // Two ninths of the live bytes, so that four or five generations hold them. Three more can be
  // there: one that grows, one that is being deleted, and one with the remaining rows of others.
  // The live bytes of one kind are not known: they are at most those of both kinds, and at most the
  // size of its tables.
  Generations::Enough enough() const {
    const auto of = [this](std::uint64_t tables) {
      return std::max(least_, std::min<std::uint64_t>(live_, tables) / 9 * 2);
    };
    return {.payloads = of(payloads_), .results = of(results_)};
  }

 private:
  const std::uint64_t least_;
  std::atomic<std::uint64_t> live_{0};  // of all batches, as the store counts them
  std::atomic<std::uint64_t> index_{0};
  std::atomic<std::uint64_t> names_{0};
  std::atomic<std::uint64_t> payloads_{0};
  std::atomic<std::uint64_t> results_{0};
};

}  // namespace locksley::daemon
