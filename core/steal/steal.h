// The outcomes of one attempt to steal.
#pragma once

namespace locksley {

// The three outcomes of one attempt to steal, which are never folded together. A thief that lost a
// race may try again at once. A thief that found nothing should go to another victim. Only kEmpty
// counts when a worker wants to park.
enum class StealOutcome {
  kStolen,    // the value is the thief's alone
  kEmpty,     // there was nothing at one moment during the call
  kLostRace,  // another thread took or changed it first; says nothing about the values left
};

// The result of one attempt to steal. A plain value.
template <class T>
struct [[nodiscard]] Steal {
  StealOutcome outcome = StealOutcome::kEmpty;
  T value{};  // meaningful only with kStolen

  bool stolen() const { return outcome == StealOutcome::kStolen; }
};

}  // namespace locksley
