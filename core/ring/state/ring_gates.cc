#include "core/ring/state/ring_gates.h"

#include <algorithm>

#include "core/base/check.h"

namespace locksley {

std::optional<GateId> RingGates::add(const GateOptions& options, FairClock& clock) {
  const auto free = std::ranges::find_if(all_, [](const auto& gate) { return gate == nullptr; });
  const auto id = static_cast<GateId>(free - all_.begin());
  if (id == kMostGates) return std::nullopt;
  if (free == all_.end()) {
    all_.emplace_back();
    // So that no later call allocates.
    for (auto* list : {&open_, &closed_}) list->reserve(all_.size());
    hints_.reserve(all_.size());
  }
  all_[id] = std::make_unique<RingGate>(id, clock, options);
  all_[id]->options.start_cost = std::max(options.start_cost, Nanoseconds{0});
  return id;
}

RingGate& RingGates::at(GateId id) const {
  check(id < all_.size() && all_[id] != nullptr, "a gate that the ring does not have");
  return *all_[id];
}

void RingGates::change_state(RingGate& gate, std::uint32_t state) {
  using Standing = RingGate::Standing;
  gate.state = state;
  const Standing standing = (state & kWaits) == 0 ? Standing::kIdle
                            : gate.admits != 0    ? Standing::kOpen
                                                  : Standing::kClosed;
  std::uint32_t ready = 0;
  if ((state & RingGate::admitting(Site::kLocal)) != 0) ready = state & (kWaits | kWaitsBrief);
  if ((state & RingGate::admitting(Site::kRemote)) != 0 && (state & kWaits) != 0)
    ready |= ReadyHints::kRemote;
  if (standing != gate.standing) move(gate, standing);
  hints_.set(gate, ready);
}

void RingGates::move(RingGate& gate, RingGate::Standing standing) {
  if (gate.standing != RingGate::Standing::kIdle) {
    std::vector<RingGate*>& list = list_of(gate.standing);
    list.back()->place = gate.place;
    list[gate.place] = list.back();
    list.pop_back();
  }
  gate.standing = standing;
  if (standing == RingGate::Standing::kIdle) return;
  std::vector<RingGate*>& list = list_of(standing);
  gate.place = static_cast<std::uint32_t>(list.size());
  list.push_back(&gate);
}

}  // namespace locksley
