#include "daemon/store/rows/stored_rows.h"

#include "core/batch/batch.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

StoredRows rows_of(const BatchStatus& status, PayloadParts parts, bool may_have_changes) {
  return {.parts = parts,
          .has_one_step = status.steps == 1,
          .may_have_failed_rows = status.failed > kFailedRangesInRow,
          .may_have_marks = may_have_marks(status),
          .may_have_changes = may_have_changes,
          .has_results_inside = has_results_inside(status)};
}

bool may_have_marks(const BatchStatus& status) {
  return status.failed + status.cancelled + status.retried != 0;
}

}  // namespace locksley::daemon
