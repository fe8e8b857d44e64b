#pragma once

#include <cstdint>
#include <string>

namespace locksley::daemon {

// Says which group a write to the store went into. Groups are written in the order of their tickets, from 1
// on.
using Ticket = std::uint64_t;

// All writes up to this ticket, from the last outcome's on, are on the disk; or the disk did not take them:
// then what was accepted or added among them is not, and what changed, ended or was forgotten is kept and
// written once the disk works again.
struct Outcome {
  Ticket up_to = 0;
  std::string error;  // empty: they are on the disk
};

}  // namespace locksley::daemon
