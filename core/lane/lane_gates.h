// The gates of a lane, as the program makes and changes them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/job.h"
#include "core/lane/lane.h"
#include "core/ring/fair_ring_gates.h"
#include "core/ring/state/ring_gate.h"

namespace locksley {

// Limits that batches of several tenants have in common, as FairRing::Gates has them. Only external
// executors' lanes have gates with a concurrency: when a turn of such a gate ends, its jobs may be
// claimed again, and the owner of the executors then lets its idle executors look for work. The
// pool does not.
//
// A handle of a lane, which outlives it. Any thread. Nothing blocks for long, except for
// set_start_cost(). A gate that does not exist ends the process.
class Lane::Gates {
 public:
  std::optional<GateId> add(const GateOptions& options) { return lane_.ring_.gates().add(options); }
  bool remove(GateId gate) { return lane_.ring_.gates().remove(gate); }

  void set_largest_claim(GateId gate, std::uint64_t most) {
    lane_.ring_.gates().set_largest_claim(gate, most);
  }
  // The least worker time that a start costs the gate's batches: GateOptions::start_cost.
  // O(batches), in parts, between which the call sleeps: with 100,000 batches it takes some 0.1 s,
  // but holds the mutex that all executors need for 0.1 ms at a time.
  void set_start_cost(GateId gate, Nanoseconds start_cost) {
    lane_.ring_.gates().set_start_cost(gate, start_cost);
  }

  // These call wake().
  void set_concurrency(GateId gate, std::uint32_t concurrency) {
    lane_.ring_.gates().set_concurrency(gate, concurrency);
    lane_.wake();
  }
  void set_switch(GateId gate, bool is_on) {
    lane_.ring_.gates().set_switch(gate, is_on);
    lane_.wake();
  }
  void set_max_running(GateId gate, std::uint32_t most) {
    lane_.ring_.gates().set_max_running(gate, most);
    lane_.wake();
  }
  void set_remote(GateId gate, bool is_remote) {
    lane_.ring_.gates().set_remote(gate, is_remote);
    lane_.wake();
  }
  void set_hold(GateId gate, bool is_held) {
    lane_.ring_.gates().set_hold(gate, is_held);
    lane_.wake();
  }

 private:
  friend class Lane;
  explicit Gates(Lane& lane) : lane_(lane) {}

  Lane& lane_;
};

inline Lane::Gates Lane::gates() { return Gates(*this); }

}  // namespace locksley
