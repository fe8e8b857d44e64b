// A limit that queues of several tenants have in common: a handler within its lane.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/job.h"
#include "core/ring/fair_level.h"
#include "core/ring/fair_owner.h"
#include "core/ring/ring_lock.h"
#include "core/ring/ring_queue.h"

namespace locksley {

// A gate of one ring. Gate 0 exists always. Others are made by FairRing::add_gate().
using GateId = std::uint32_t;
// Of one ring, gate 0 included.
inline constexpr GateId kMostGates = 1024;

// Some gates of a ring, for claims and hints. A plain value of 128 bytes; nothing fails but that an id beyond
// kMostGates ends the process.
class GateSet {
 public:
  static constexpr std::size_t kWords = kMostGates / 64;

  GateSet() = default;
  explicit GateSet(GateId gate) { add(gate); }
  void add(GateId gate) { words_.at(gate / 64) |= bit(gate); }
  void remove(GateId gate) { words_.at(gate / 64) &= ~bit(gate); }
  bool has(GateId gate) const { return (words_.at(gate / 64) & bit(gate)) != 0; }
  std::uint64_t word(std::size_t i) const { return words_[i]; }
  static std::uint64_t bit(GateId gate) { return std::uint64_t{1} << gate % 64; }

 private:
  std::array<std::uint64_t, kWords> words_{};
};

struct GateOptions {
  std::uint32_t concurrency = 0;  // executors at once; 0: no limit
  bool is_on = true;              // the owner's switch
  // Where starts are scarce (`rate`): worker time that a start costs its queue at least, however
  // short the job is. 0: nothing. Without effect on Share::kJobs.
  Nanoseconds start_cost{0};
};

struct RingSeat;
struct RingTenant;

// A gate, and the level of the tenants that have queues there. Owned by the ring. Guarded by the ring's mutex
// (core/ring/ring_lock.h). Nothing blocks or fails.
struct RingGate {
  // kIdle: nothing waits. kOpen, kClosed: something does, and may or may not be claimed.
  enum class Standing : std::uint8_t { kIdle, kOpen, kClosed };

  RingGate(GateId number, FairClock& clock, const GateOptions& given)
      : id(number), options(given), level(clock), is_open(given.is_on) {}

  const GateId id;
  GateOptions options LOCKSLEY_GUARDED_BY(kRingNodes);
  FairLevel<RingSeat> level LOCKSLEY_GUARDED_BY(kRingNodes);
  std::uint32_t executors LOCKSLEY_GUARDED_BY(kRingNodes) = 0;
  bool is_open LOCKSLEY_GUARDED_BY(kRingNodes);             // switched on, and below its concurrency
  std::uint32_t state LOCKSLEY_GUARDED_BY(kRingNodes) = 0;  // FairRing::list()
  Standing standing LOCKSLEY_GUARDED_BY(kRingNodes) = Standing::kIdle;
  std::uint32_t place LOCKSLEY_GUARDED_BY(kRingNodes) = 0;  // in the ring's list of its standing
  // What may be claimed (FairRing::has_work()), and as it was last published.
  std::uint32_t ready LOCKSLEY_GUARDED_BY(kRingNodes) = 0;
  std::uint32_t published LOCKSLEY_GUARDED_BY(kRingNodes) = 0;
  bool is_unpublished LOCKSLEY_GUARDED_BY(kRingNodes) = false;  // in FairRing::unpublished_
  std::uint64_t queues LOCKSLEY_GUARDED_BY(kRingNodes) = 0;
  std::uint64_t active_queues LOCKSLEY_GUARDED_BY(kRingNodes) = 0;
  std::uint64_t queued LOCKSLEY_GUARDED_BY(kRingNodes) = 0;  // jobs
  // Virtual time that start costs have added here beyond the time that was used: FairRing::forgive_starts().
  VirtualTime excess LOCKSLEY_GUARDED_BY(kRingNodes) = 0;
};

// A tenant at a gate: a node among the tenants there, and the level of the tenant's queues of that gate. Owned
// by its tenant, made with the first such queue, and kept until tenant or gate cease to be. Guarded as the gate
// is.
struct RingSeat {
  RingSeat(RingTenant& whose, FairClock& queues, RingGate& where)
      : tenant(whose), gate(where), level(queues) {}

  RingTenant& tenant;
  RingGate& gate;
  FairNode fair LOCKSLEY_GUARDED_BY(kRingNodes);
  FairPart own LOCKSLEY_GUARDED_BY(kRingNodes);
  FairLevel<RingQueue> level LOCKSLEY_GUARDED_BY(kRingNodes);

  FairLevel<RingSeat>& home() LOCKSLEY_REQUIRES(kRingNodes) { return gate.level; }
};

}  // namespace locksley
