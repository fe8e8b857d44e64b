// The gates of a ring, as the program makes and changes them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/job.h"
#include "core/ring/fair_ring.h"
#include "core/ring/state/ring_gate.h"

namespace locksley {

// Limits that queues of several tenants have in common. Gate 0 always exists.
//
// A handle of a ring, which outlives it. Any thread. Each call takes the ring's mutex once; a
// change is effective at once, and what runs goes on. A gate that does not exist ends the process.
// O(1), unless the call says otherwise.
class FairRing::Gates {
 public:
  // None if there are kMostGates. The id of a gate that was removed is used again.
  std::optional<GateId> add(const GateOptions& options);
  // False, and nothing happens, while a queue belongs to the gate, and for gate 0. O(tenants +
  // customers).
  bool remove(GateId gate);

  // GateOptions::concurrency, is_on, max_running, is_remote, is_held.
  void set_concurrency(GateId gate, std::uint32_t concurrency);
  void set_switch(GateId gate, bool is_on);
  void set_max_running(GateId gate, std::uint32_t most);
  void set_remote(GateId gate, bool is_remote);
  void set_hold(GateId gate, bool is_held);
  // GateOptions::largest_claim, for later claims.
  void set_largest_claim(GateId gate, std::uint64_t most);
  // GateOptions::start_cost. With another value, all queues of the gate and all tenants there start
  // anew, none ahead of another: what a start has cost before has nothing to do with what it costs
  // now. O(queues).
  void set_start_cost(Nanoseconds start_cost, GateId gate = 0);

 private:
  friend class FairRing;
  explicit Gates(FairRing& ring) : ring_(ring) {}

  template <class Change>
  void change(GateId id, Change apply) LOCKSLEY_EXCLUDES(ring_.mutex_);

  FairRing& ring_;
};

inline FairRing::Gates FairRing::gates() { return Gates(*this); }

}  // namespace locksley
