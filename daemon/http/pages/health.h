// /healthz and /readyz: whether the daemon makes progress, and whether it accepts batches.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/base/job.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"

namespace locksley::daemon {

// A snapshot of a lane and its pool.
struct LaneProgress {
  bool claimable = false;       // the ring has jobs that an executor may claim now
  std::uint32_t executors = 0;  // at work
  std::uint32_t slots = 0;      // in total
  std::uint64_t claims = 0;     // since the start
  Nanoseconds last_progress{};  // steady instant at which a job or sub-job last ended
};

// Detects that jobs wait, an executor is free, and no job is claimed: a wake-up was lost or a
// worker died, which would be a bug that only a restart cures. Jobs that wait because all executors
// are busy are not a stall, however long the running jobs take; neither are jobs that may not be
// claimed (a paused batch, or one at its limit of slots).
//
// A stall begins with the first snapshot that shows it, and lasts while every later one shows it
// with nothing claimed and nothing ended in between. So at least two snapshots, more than `bound`
// apart, are needed to report one.
//
// Owned by Health; not synchronised: one thread at a time. Nothing blocks or fails.
class StallDetector {
 public:
  explicit StallDetector(Nanoseconds bound) : bound_(bound) {}

  // Takes a snapshot. Returns for how long the lane has been stalled, if that is longer than the
  // bound.
  std::optional<Nanoseconds> observe(const LaneProgress& progress, Nanoseconds now);

 private:
  const Nanoseconds bound_;
  std::optional<Nanoseconds> stalled_since_;
  std::uint64_t claims_ = 0;
  Nanoseconds last_progress_{};
};

// The state behind /healthz and /readyz.
//
// Owned by HttpPort; the pool and the lane outlive it. trouble(): one thread at a time; the others:
// any thread. Nothing blocks or fails. A hanging I/O loop needs no check here: the probe runs on
// that loop, and gets no answer.
class Health {
 public:
  // A guess: much longer than a claim waits for a free worker (microseconds), and short enough for
  // an operator.
  static constexpr Nanoseconds kStallBound = std::chrono::seconds(60);

  Health(const Pool& pool, const Lane& lane) : pool_(pool), lane_(lane) {}

  // Why the daemon is not healthy; none: it is.
  std::optional<std::string> trouble(Nanoseconds now = steady_now());

  // Called by unready(), and by the same threads: since when the store has refused writes; none: it
  // takes them. Set once, before the first look. Without it there is no store.
  void watch_store(std::function<std::optional<Nanoseconds>()> failing_since) {
    store_failing_since_ = std::move(failing_since);
  }
  // Likewise: why no page of batches is served now; none: it is. Without it no other daemon can
  // have the batches.
  void watch_role(std::function<std::optional<std::string>()> refusal) { refusal_ = std::move(refusal); }
  // A guess: longer than an error that passes, and than the daemon takes to reopen the store.
  static constexpr Nanoseconds kStoreBound = std::chrono::seconds(5);
  // Why a load balancer should send no batches here; none: it may. A limit that is reached is no
  // reason: its error concerns one user or one command.
  std::optional<std::string> unready(Nanoseconds now = steady_now()) const;

  enum class Phase { kStarting, kServing, kDraining };
  void set_phase(Phase phase) { phase_.store(phase); }
  Phase phase() const { return phase_.load(); }

 private:
  const Pool& pool_;
  const Lane& lane_;
  StallDetector detector_{kStallBound};
  std::function<std::optional<Nanoseconds>()> store_failing_since_;
  std::function<std::optional<std::string>()> refusal_;
  std::atomic<Phase> phase_{Phase::kStarting};  // written by main's thread, read by the HTTP side's
};

}  // namespace locksley::daemon
