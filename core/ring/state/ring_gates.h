// The gates of a ring, and which of them have queues that wait.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/fair/fair_level.h"
#include "core/ring/state/ready_hints.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_lock.h"

namespace locksley {

// Owns the gates. The gates where a queue waits are in two lists: open() and closed(). After each
// change it also updates the ReadyHints, which it borrows. A member of the ring, guarded by its
// mutex. Nothing blocks; at() ends the process for a gate that does not exist.
class RingGates {
 public:
  explicit RingGates(ReadyHints& hints) : hints_(hints) {}
  RingGates(const RingGates&) = delete;
  RingGates& operator=(const RingGates&) = delete;

  // None if there are kMostGates. The id of a gate that was removed is used again.
  std::optional<GateId> add(const GateOptions& options, FairClock& clock) LOCKSLEY_REQUIRES(kFairNodes);
  void remove(GateId id) { all_[id] = nullptr; }
  // Ends the process if there is no such gate.
  RingGate& at(GateId id) const;
  // All gates, by id; null: there is none with this id.
  const std::vector<std::unique_ptr<RingGate>>& all() const { return all_; }
  // The gates where a queue waits: those that admit an executor, and those that admit none.
  const std::vector<RingGate*>& open() const { return open_; }
  const std::vector<RingGate*>& closed() const { return closed_; }
  // Whether at most one gate has queues that wait.
  bool at_most_one_waits() const { return open_.size() + closed_.size() <= 1; }
  bool nothing_waits() const { return open_.empty() && closed_.empty(); }

  void change_executors(RingGate& gate, std::uint32_t by) LOCKSLEY_REQUIRES(kFairNodes) {
    gate.executors += by;
    if (gate.is_limited) [[unlikely]]
      update_admits(gate);
  }
  // After any change that may open or close the gate.
  void update_admits(RingGate& gate) LOCKSLEY_REQUIRES(kFairNodes) {
    const std::uint32_t admits = gate.admitted_now();
    if (admits == gate.admits) return;
    gate.admits = admits;
    update_lists(gate);
  }
  // Updates lists and hints after any change of the gate.
  void update_lists(RingGate& gate) LOCKSLEY_REQUIRES(kFairNodes) {
    const std::uint32_t state =
        (gate.level.empty() ? 0 : kWaits) | (gate.level.has_brief() ? kWaitsBrief : 0) | gate.admits;
    if (state != gate.state) change_state(gate, state);
  }

 private:
  // Bits of RingGate::state, besides those of RingGate::admits.
  static constexpr std::uint32_t kWaits = ReadyHints::kAny;
  static constexpr std::uint32_t kWaitsBrief = ReadyHints::kBrief;

  void change_state(RingGate& gate, std::uint32_t state) LOCKSLEY_REQUIRES(kFairNodes);
  void move(RingGate& gate, RingGate::Standing standing) LOCKSLEY_REQUIRES(kFairNodes);
  std::vector<RingGate*>& list_of(RingGate::Standing standing) {
    return standing == RingGate::Standing::kOpen ? open_ : closed_;
  }

  ReadyHints& hints_;
  std::vector<std::unique_ptr<RingGate>> all_;
  std::vector<RingGate*> open_;
  std::vector<RingGate*> closed_;
};

}  // namespace locksley
