#include "daemon/server/batches/changes/result_discards.h"

#include <cstddef>

#include "daemon/server/accounts/tenants.h"
#include "daemon/server/batches/changes/result_relief.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/stored_batches.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

void ResultDiscards::discard_rows(BatchRecord& record, std::uint64_t row, const ResultLog::Place& place) {
  constexpr std::size_t kFewChunks = 8;  // a page of small rows has that many at most
  const std::uint64_t discarded = record.status().discarded;
  discarder_seen(record, Discarder::kIsReading);
  record.discard_rows_before(row, place);
  const BatchStatus status = record.status();
  if (status.discarded == discarded) return;
  if (!record.drop_rows_before(status.discarded, kFewChunks)) {
    drop_rows_aside(parts_.aside, parts_.registry.tenant_of(record).number, record.shared(),
                    status.discarded);
  }
  if (!record.is_stored() || record.stored.is_rejected) return;
  // Rows that were discarded earlier are gone: the store skips them.
  parts_.stored.discard(record, {0, place.first_row});
  parts_.retention.results_discarded(record, status.result_bytes);
}

void ResultDiscards::discarder_seen(BatchRecord& record, Discarder which) {
  record.discarder.seen = now();
  // The batch may have gone on while another thread read the page.
  record.discarder.has_all = which == Discarder::kHasAll && record.is_over();
  if (record.discarder.has_all && parts_.retention.returns_earlier(record)) parts_.relief.wait_for_readers();
}

}  // namespace locksley::daemon
