// The order of writes, and their outcome. Plain values.
#pragma once

#include <cstdint>
#include <string>

namespace locksley::daemon {

// The number of the group that a write to the store belongs to. Groups are written in the order of
// their tickets, which begin with 1.
using Ticket = std::uint64_t;

// The outcome of all writes after the ticket of the outcome before, up to `up_to`. Without an error
// they are on the disk. With an error, the acceptances and ADDs among them are refused; the other
// writes are kept, and written once the disk works again, which one more outcome reports.
struct Outcome {
  Ticket up_to = 0;
  std::string error;  // empty: the writes are on the disk
  // This outcome reports that the kept writes are on the disk now; their clients had replies
  // before.
  bool is_of_kept_ones = false;
};

}  // namespace locksley::daemon
