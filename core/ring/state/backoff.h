// Pauses of a queue, in which none of its jobs is claimed (FairRing::end_waits()).
#pragma once

#include <cstdint>

namespace locksley {

// Why a queue is not served for a while after a turn.
enum class Backoff : std::uint8_t {
  kNone,
  kBroken,      // the last job of the turn broke the executor: a worker program has crashed
  kNoPayloads,  // the payloads cannot be read now: PayloadSource::fetch()
};

}  // namespace locksley
