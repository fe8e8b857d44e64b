// When restored batches start, end by their deadline, and are forgotten.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/batches/stored/store_clock.h"
#include "daemon/server/records/registry.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

struct StoredBatch;

// When batches of an earlier process start, end by their deadline, and are forgotten: applies
// StoreClock to all stored times, and again at its second look. Until then it keeps their
// wall-clock times (24 bytes for each batch that is over, 32 for each that has a delay or a
// deadline), but only if the clock is doubtful.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails.
class RestoredTimes {
 public:
  using ReadClocks = ClockReading (*)();
  // `changed` is called after times were computed again.
  struct Parts {
    asio::io_context& io;
    Slices& slices;
    Registry& registry;
    std::shared_ptr<spdlog::logger> log;
    std::function<void()> changed;
  };
  explicit RestoredTimes(Parts parts, ReadClocks read = read_clocks);
  RestoredTimes(const RestoredTimes&) = delete;
  RestoredTimes& operator=(const RestoredTimes&) = delete;

  // ---- In this order, at the start ----

  // Compares the times of a stored batch with the wall clock.
  void see(const StoredBatch& stored) LOCKSLEY_REQUIRES(kIoThread);
  // When the batch, which is over, is forgotten: provisional, since not all batches were seen yet.
  Instant forget_at(const StoredBatch& stored) LOCKSLEY_REQUIRES(kIoThread);
  // All batches were seen, and those that are over are among the retained ones.
  void judge() LOCKSLEY_REQUIRES(kIoThread);
  // How far the wall clock is ahead of the newest time of the store.
  std::chrono::milliseconds difference() const LOCKSLEY_REQUIRES(kIoThread) { return clock_.difference(); }
  // When the batch, which is not over, may start, and when its deadline passes; kNever: it has
  // none.
  struct Due {
    Instant start;
    Instant deadline;
  };
  Due due_of(const StoredBatch& stored) LOCKSLEY_REQUIRES(kIoThread);

  // ---- Later ----

  // A timer calls it, once, if the clock was doubtful.
  void look_again() LOCKSLEY_REQUIRES(kIoThread);

 private:
  struct Retained {
    std::uint64_t sequence;
    std::int64_t until;  // Unix milliseconds
    std::int64_t longest_ms;
    Instant at(const StoreClock& clock) const {
      return clock.end_at(until, std::chrono::milliseconds(longest_ms));
    }
  };
  struct Active {
    std::uint64_t sequence;
    std::int64_t submitted_at;
    std::int64_t start_at;     // 0: at once
    std::int64_t deadline_at;  // 0: none
    Due at(const StoreClock& clock) const;
  };
  static Active active_of(const StoredBatch& stored);
  void compute_again(const Retained& batch) LOCKSLEY_REQUIRES(kIoThread);
  // Computes some times again until about `until`. True if all are done.
  bool compute_again(Instant until) LOCKSLEY_REQUIRES(kIoThread);
  void drop_times() LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  const ReadClocks read_;
  Timer timer_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::int64_t newest_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;
  StoreClock clock_ LOCKSLEY_GUARDED_BY(kIoThread);
  StoreClock before_ LOCKSLEY_GUARDED_BY(kIoThread);  // the previous clock_: times were computed by it before
  std::vector<Retained> retained_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::vector<Active> active_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
