#pragma once

namespace locksley {

// The three outcomes of one try to steal, never folded together: a thief that lost a race may try again at
// once, one that found nothing should look elsewhere, and only kEmpty counts when a worker wants to park.
enum class StealOutcome {
  kStolen,    // value is the thief's, and nobody else's
  kEmpty,     // there was nothing at one moment during the call
  kLostRace,  // somebody else took or changed it first; says nothing about what is left
};

// What one try to steal brought. A plain value.
template <class T>
struct [[nodiscard]] Steal {
  StealOutcome outcome = StealOutcome::kEmpty;
  T value{};  // meaningful only with kStolen

  bool stolen() const { return outcome == StealOutcome::kStolen; }
};

}  // namespace locksley
