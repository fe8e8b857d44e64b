// A tenant in a ring: a node among tenants, and the level of its own queues.
#pragma once

#include <cstdint>
#include <string>

#include "core/fair_level.h"
#include "core/indexed_heap.h"
#include "core/job.h"
#include "core/ring_queue.h"

namespace locksley {

// Owned by the ring, made with its first queue; removed when it has no queue and has paid for what it was
// ahead. Guarded by the ring's mutex.
struct RingTenant {
  std::string name;
  FairNode fair;
  FairLevel<RingQueue> level;
  RingQueue* first = nullptr;  // all its queues, ready or not
  std::uint64_t queues = 0;
  std::uint64_t internal_queues = 0;  // of these
  std::uint64_t queued = 0;           // jobs
  Nanoseconds busy{};                 // settled since it was made
  std::uint32_t retired_place = FairNode::kNotInHeap;
};

inline std::uint32_t& retired_place_of(RingTenant& tenant) { return tenant.retired_place; }

// Tenants without queues, by the virtual time at which they have paid.
using RetiredTenants = IndexedHeap<RingTenant, VirtualTime, &retired_place_of>;

}  // namespace locksley
