// A limit that queues of several tenants have in common: a handler within its lane.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "core/base/job.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_node.h"

namespace locksley {

// The number of a gate of one ring. Gate 0 always exists. FairRing::Gates::add() makes others.
using GateId = std::uint32_t;
// The most gates of one ring, gate 0 included.
inline constexpr GateId kMostGates = 1024;

// Some gates of a ring, for claims and hints. A plain value of 136 bytes. An id of kMostGates or
// more ends the process; nothing else fails.
class GateSet {
 public:
  static constexpr std::size_t kWords = kMostGates / 64;
  // For how long the claiming executor is restricted to these gates.
  //   - kLasting: permanently. Tenants at other gates cannot use the executor at all. So the
  //     tenants at these gates owe them no more than one turn of each executor.
  //   - kPassing: for this claim. The executor serves all gates again later. Then the tenants that
  //     it has served in the meantime yield to the others.
  enum class Restriction : std::uint8_t { kLasting, kPassing };

  GateSet() = default;
  explicit GateSet(GateId gate) { add(gate); }
  explicit GateSet(Restriction restriction) : restriction_(restriction) {}
  Restriction restriction() const { return restriction_; }
  void add(GateId gate) { words_.at(gate / 64) |= bit(gate); }
  void add(const GateSet& gates) {
    for (std::size_t i = 0; i < kWords; ++i) words_[i] |= gates.words_[i];
  }
  void remove(GateId gate) { words_.at(gate / 64) &= ~bit(gate); }
  bool has(GateId gate) const { return (words_.at(gate / 64) & bit(gate)) != 0; }
  std::uint64_t word(std::size_t i) const { return words_[i]; }
  static std::uint64_t bit(GateId gate) { return std::uint64_t{1} << gate % 64; }
  // An order without a meaning, for maps.
  friend auto operator<=>(const GateSet&, const GateSet&) = default;

 private:
  std::array<std::uint64_t, kWords> words_{};
  Restriction restriction_ = Restriction::kLasting;
};

// Which queues a claim may come from. kBrief: only those whose jobs are brief
// (FairRing::Options::brief_job), for workers that are reserved for such jobs.
enum class ClaimFilter : std::uint8_t { kAny, kBrief };

// Where an executor runs: on this machine, or on that of a remote worker. The values are bits of
// RingGate::admits.
enum class Site : std::uint8_t { kLocal = 8, kRemote = 16 };

// The program's settings of a gate.
struct GateOptions {
  std::uint32_t concurrency = 0;    // local executors at once; 0: no limit
  bool is_on = true;                // a switch, of local executors
  std::uint64_t largest_claim = 0;  // jobs that a claim of a local executor takes at most; 0: no limit
  // The least worker time that a start is charged, for a program that limits the rate of starts.
  // 0: nothing. Without effect on Share::kJobs.
  Nanoseconds start_cost{0};
  std::uint32_t max_running = 0;  // executors at once, local and remote ones together; 0: no limit
  bool is_remote = false;         // remote executors serve it
  bool is_held = false;           // its jobs cannot be claimed, but can be reclaimed
};

// A gate, and the level of the tenants that have queues there. Owned by the ring. Guarded by the
// ring's mutex (core/ring/state/ring_lock.h). Nothing blocks or fails.
struct RingGate {
  // kIdle: no queue waits. kOpen: queues wait, and an executor may claim. kClosed: queues wait, and
  // no executor may claim.
  enum class Standing : std::uint8_t { kIdle, kOpen, kClosed };

  RingGate(GateId number, FairClock& clock, const GateOptions& given)
      : id(number), options(given), level(clock) {
    update_limits();
  }

  // A bit of `admits`, and of `state`.
  static constexpr std::uint32_t admitting(Site site) { return static_cast<std::uint32_t>(site); }
  bool is_open() const LOCKSLEY_REQUIRES(kFairNodes) { return admits != 0; }
  // Who may claim, as `admits`.
  std::uint32_t admitted_now() const LOCKSLEY_REQUIRES(kFairNodes) {
    if (options.is_held || (options.max_running != 0 && executors >= options.max_running)) return 0;
    const bool has_place = options.concurrency == 0 || executors - remote < options.concurrency;
    return (options.is_on && has_place ? admitting(Site::kLocal) : 0) |
           (options.is_remote ? admitting(Site::kRemote) : 0);
  }
  // After a change of the options.
  void update_limits() LOCKSLEY_REQUIRES(kFairNodes) {
    most = options.max_running;
    if (!options.is_remote && options.concurrency != 0)
      most = most == 0 ? options.concurrency : std::min(most, options.concurrency);
    largest_claim = options.largest_claim == 0 ? ~std::uint64_t{0} : options.largest_claim;
    is_limited = (options.concurrency | options.max_running) != 0;
    admits = admitted_now();
  }

  const GateId id;
  GateOptions options LOCKSLEY_GUARDED_BY(kFairNodes);
  RingLevel level LOCKSLEY_GUARDED_BY(kFairNodes);  // of tenants' seats
  std::uint32_t executors LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint32_t remote LOCKSLEY_GUARDED_BY(kFairNodes) = 0;         // of these
  std::uint32_t most LOCKSLEY_GUARDED_BY(kFairNodes) = 0;           // executors at once; 0: no limit
  std::uint64_t largest_claim LOCKSLEY_GUARDED_BY(kFairNodes) = 0;  // of local executors
  bool is_limited LOCKSLEY_GUARDED_BY(kFairNodes) = false;          // by a number
  std::uint32_t admits LOCKSLEY_GUARDED_BY(kFairNodes) = 0;         // 0: closed
  std::uint32_t state LOCKSLEY_GUARDED_BY(kFairNodes) = 0;          // RingGates::update_lists()
  Standing standing LOCKSLEY_GUARDED_BY(kFairNodes) = Standing::kIdle;
  std::uint32_t place LOCKSLEY_GUARDED_BY(kFairNodes) = 0;  // in the list of RingGates for its standing
  // What may be claimed (ReadyHints::has_work()), and as it was last published.
  std::uint32_t ready LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint32_t published LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  bool is_unpublished LOCKSLEY_GUARDED_BY(kFairNodes) = false;  // in ReadyHints::unpublished_
  std::uint64_t queues LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint64_t active_queues LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint64_t queued LOCKSLEY_GUARDED_BY(kFairNodes) = 0;  // jobs
};

}  // namespace locksley
