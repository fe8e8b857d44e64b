// Which rows of a batch are in the store, for the writes that delete some of them.
#pragma once

#include <cstdint>

#include "daemon/store/rows/payload_parts.h"

namespace locksley {
struct BatchStatus;
}

namespace locksley::daemon {

// The row of a batch's end has at most so many ranges of failed jobs. If there are more, all are in
// rows of their own, with so many each, and are read only for a retry. So it takes some 20 us to
// read a batch that is over, however many of its jobs failed.
inline constexpr std::uint64_t kFailedRangesInRow = 1024;

// Which rows a batch that is over has, as far as is known. So the deletion of the batch deletes no
// row that cannot be there, and searches for none. By default nothing is known. A value of two
// bytes, since memory has one for each retained batch.
struct StoredRows {
  PayloadParts parts = PayloadParts::kUnknown;
  bool has_one_step : 1 = false;         // its first step was also its last
  bool may_have_failed_rows : 1 = true;  // jobs of more than kFailedRangesInRow ranges may have failed
  bool may_have_marks : 1 = true;        // some of its jobs may not have been ok
  bool may_have_changes : 1 = true;      // it may have been changed, or jobs may have been added
  bool has_results_inside : 1 = false;   // in the row of its end; the batch has no row of results then
};
static_assert(sizeof(StoredRows) == 2);

// The rows of a batch with this status, which is over.
StoredRows rows_of(const BatchStatus& status, PayloadParts parts, bool may_have_changes);

// Whether some results of a batch with this status may not have been ok, for StoredRows and
// ChangeBatch.
bool may_have_marks(const BatchStatus& status);

}  // namespace locksley::daemon
