// A group of queues in a ring: a tenant, or a customer of a tenant; and its seat at each gate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/job.h"
#include "core/base/result_account.h"
#include "core/base/start_rate.h"
#include "core/fair/fair_competitor.h"
#include "core/fair/fair_level.h"
#include "core/fair/indexed_heap.h"
#include "core/ring/state/due_service.h"
#include "core/ring/state/first_costs.h"
#include "core/ring/state/group_limits.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_node.h"

namespace locksley {

struct RingGroup;
class RingQueue;

// The place of a group at one gate: a node among the seats of that gate, and the level of the
// group's members there (its queues, or the seats of its customers). Owned by its group: made with
// the group's first queue at the gate, and kept until the group or the gate is removed. Guarded as
// the gate is.
struct RingSeat final : RingNode {
  // `clock_of_members`: of the queues or seats below. `parent_in`: null for a tenant's seat.
  RingSeat(RingGroup& group_in, FairClock& clock_of_members, RingGate& gate_in, RingSeat* parent_in)
      : group(group_in),
        gate(gate_in),
        parent(parent_in),
        home_level(parent_in != nullptr ? &parent_in->level : &gate_in.level),
        level(clock_of_members) {}

  RingLevel& home() const LOCKSLEY_REQUIRES(kFairNodes) { return *home_level; }
  void set_parent(RingSeat& above) LOCKSLEY_REQUIRES(kFairNodes) {
    parent = &above;
    home_level = &above.level;
  }

  RingGroup& group;
  RingGate& gate;
  RingSeat* parent LOCKSLEY_GUARDED_BY(kFairNodes);  // of a customer: its tenant's seat there
  RingLevel* home_level LOCKSLEY_GUARDED_BY(kFairNodes);
  FairPart own LOCKSLEY_GUARDED_BY(kFairNodes);
  // These two members cover the queues at this seat; at a tenant's seat, the queues of all its
  // customers there.
  FirstCosts first_costs LOCKSLEY_GUARDED_BY(kFairNodes);
  std::uint32_t first_turns LOCKSLEY_GUARDED_BY(kFairNodes) = 0;  // queues with RingQueue::in_first_turn_
  RingLevel level LOCKSLEY_GUARDED_BY(kFairNodes);
  // It is a tenant's seat, and the tenant has no limits and no blocks. Most seats are plain, so
  // that a turn makes one comparison in place of several.
  bool is_plain LOCKSLEY_GUARDED_BY(kFairNodes) = true;
};

struct RingCustomers;

// A tenant among the tenants, or a customer among the customers of its tenant. It has a seat at
// each gate where it has queues, and the clock of its members. The members of a customer are
// queues. Those of a tenant are queues, too, until its first customer with a name or with limits
// comes. From then on they are customers, which have the queues. So a tenant without customers has
// one level less.
//
// Owned by the ring (a tenant) or by its tenant (a customer). Made with its first queue, and kept
// for a while without queues (FairRing::Options::most_idle_tenants, most_idle_customers). Guarded
// by the ring's mutex (core/ring/state/ring_lock.h). Nothing blocks or fails.
struct RingGroup : FairCompetitor<RingSeat, RingNode> {
  // Bits of `blocks`: why none of its queues is served, though some may be ready. kFull: its
  // account of results was full at the last claim; until Groups::reopen_tenants(). kAtSlots: it has
  // as many executors as it may. kAtRate: its rate admits no start now.
  static constexpr std::uint8_t kFull = 1;
  static constexpr std::uint8_t kAtSlots = 2;
  static constexpr std::uint8_t kAtRate = 4;

  std::string name LOCKSLEY_GUARDED_BY(kFairNodes);
  RingGroup* tenant LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;  // of a customer
  FairClock clock LOCKSLEY_GUARDED_BY(kFairNodes);              // of its members, at whatever gates
  // Null: its members are queues.
  std::unique_ptr<RingCustomers> customers LOCKSLEY_GUARDED_BY(kFairNodes);
  // The list of all queues that are its members, ready or not.
  RingQueue* first LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;
  // A tenant's include those of its customers.
  std::uint64_t queues LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint64_t internal_queues LOCKSLEY_GUARDED_BY(kFairNodes) = 0;  // of these
  std::uint64_t queued LOCKSLEY_GUARDED_BY(kFairNodes) = 0;           // jobs
  Nanoseconds busy LOCKSLEY_GUARDED_BY(kFairNodes){};                 // settled since it was made
  DueService due LOCKSLEY_GUARDED_BY(kFairNodes);                     // while fair.competes
  // The account of a tenant's results; null: they are not counted. It is QueueOptions::results of
  // the last queue that came.
  ResultAccount* results LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;
  GroupLimits limits LOCKSLEY_GUARDED_BY(kFairNodes);
  StartRate rate LOCKSLEY_GUARDED_BY(kFairNodes);  // as `limits` say
  std::uint8_t blocks LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint32_t idle_place LOCKSLEY_GUARDED_BY(kFairNodes) = kNotInHeap;
  bool is_resting LOCKSLEY_GUARDED_BY(kFairNodes) = false;  // the heap is RingCustomers::resting
  // For a tenant: how many of its customers have no queues, and its place in IdleCustomers.
  std::size_t idle_customers LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint32_t idle_customers_place LOCKSLEY_GUARDED_BY(kFairNodes) = kNotInHeap;
  std::uint32_t wait_place LOCKSLEY_GUARDED_BY(kFairNodes) = kNotInHeap;  // RingWaits

  bool at_limit() const LOCKSLEY_REQUIRES(kFairNodes) { return (blocks & (kAtSlots | kAtRate)) != 0; }
  // Whether a member is ready, at any gate.
  bool has_waiting() const LOCKSLEY_REQUIRES(kFairNodes) {
    for (const auto& seat : parts) {
      if (!seat->level.empty()) return true;
    }
    return false;
  }
};

// Not checked, since IndexedHeap knows no locks: it is called by the heaps below, under the mutex.
inline std::uint32_t& idle_place_of(RingGroup& group) LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS {
  return group.idle_place;
}

// Groups without queues, by their keys.
using IdleGroups = IndexedHeap<RingGroup, VirtualTime, &idle_place_of>;

// The customers of a tenant. A member of the tenant, and guarded as it is.
struct RingCustomers {
  std::map<std::string, std::unique_ptr<RingGroup>, std::less<>> by_name LOCKSLEY_GUARDED_BY(kFairNodes);
  // The customers without queues (IdleCustomers). `idle`: those ahead of the virtual time, by their
  // keys. `resting`: the others, by the instants at which their rates admit the next start.
  IdleGroups idle LOCKSLEY_GUARDED_BY(kFairNodes);
  IndexedHeap<RingGroup, Nanoseconds, &idle_place_of> resting LOCKSLEY_GUARDED_BY(kFairNodes);
  std::size_t idle_size() const LOCKSLEY_REQUIRES(kFairNodes) { return idle.size() + resting.size(); }
  ServiceClock service LOCKSLEY_GUARDED_BY(kFairNodes);  // the service due to the tenant
};

}  // namespace locksley
