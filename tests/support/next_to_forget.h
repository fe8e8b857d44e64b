#pragma once

#include "daemon/base/time.h"
#include "daemon/server/records/retained.h"

namespace locksley::testing {

// The batch with the earliest forget_at; null if there is none.
inline const daemon::RetainedBatch* next_to_forget(daemon::RetainedBatches& all) {
  while (all.earliest_forget_bound() != daemon::Instant::max()) {
    if (const daemon::RetainedBatch* const next = all.due_at(daemon::Instant::max())) return next;
  }
  return nullptr;
}

}  // namespace locksley::testing
