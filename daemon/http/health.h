// /healthz and /readyz: does the daemon get on with its work, and does it take on more?
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "core/job.h"
#include "core/lane.h"
#include "core/pool.h"

namespace locksley::daemon {

// What one look at a lane and its pool shows.
struct LaneProgress {
  bool claimable = false;       // the ring has something that an executor may claim now
  std::uint32_t executors = 0;  // at work
  std::uint32_t slots = 0;      // that there are, for any work
  std::uint64_t claims = 0;     // so far
  Nanoseconds last_progress{};  // steady instant at which a piece of work last ended
};

// Finds out that work lies there, somebody is free to do it, and nobody does: a lost wake-up or a dead
// worker, which would be a bug and which only a restart cures. Work that all executors are too busy for is no
// stall, however long their jobs take, and neither is work that nobody may claim (paused, at its slots).
//
// It needs two looks: the stall lasts from the first one that shows it, as long as every later one shows it
// with nothing claimed and nothing ended in between. So it finds nothing before `bound` has passed between
// two probes, and what looks at it must come by now and then. Not thread-safe.
class StallDetector {
 public:
  explicit StallDetector(Nanoseconds bound) : bound_(bound) {}

  // For how long it has been stalled, if that is longer than the bound.
  std::optional<Nanoseconds> look(const LaneProgress& progress, Nanoseconds now);

 private:
  const Nanoseconds bound_;
  std::optional<Nanoseconds> stalled_since_;
  std::uint64_t claims_ = 0;
  Nanoseconds last_progress_{};
};

// The two answers.
//
// Owned by main(); the pool and the lane outlive it. trouble() is called by one thread at a time, the others
// by any. Nothing blocks. That the I/O loop answers at all is the other half of being healthy, and needs no
// code: the probe runs on it.
class Health {
 public:
  // Much longer than a claim waits for a free worker (microseconds), much shorter than an operator's
  // patience; a guess.
  static constexpr Nanoseconds kStallBound = std::chrono::seconds(60);

  Health(const Pool& pool, const Lane& lane) : pool_(pool), lane_(lane) {}

  // The reason why it is not healthy; none: it is.
  std::optional<std::string> trouble(Nanoseconds now = steady_now());

  enum class Phase { starting, serving, draining };
  void set_phase(Phase phase) { phase_.store(phase); }
  Phase phase() const { return phase_.load(); }

 private:
  const Pool& pool_;
  const Lane& lane_;
  StallDetector detector_{kStallBound};
  std::atomic<Phase> phase_{Phase::starting};  // written by main's thread, read by the HTTP side's
};

}  // namespace locksley::daemon
