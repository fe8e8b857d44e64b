// Until when a command with the option BLOCK waits. The I/O thread only; nothing blocks or fails.
#pragma once

#include <chrono>
#include <optional>

#include "daemon/base/time.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {

// `block`: as parsed; 0: without limit; none: the command does not wait. In a transaction no
// command waits.
inline Instant deadline_of_block(Session& session, std::optional<std::chrono::milliseconds> block) {
  if (!block || session.transaction().is_running()) return now();
  return block->count() == 0 ? kNever : now() + *block;
}

}  // namespace locksley::daemon
