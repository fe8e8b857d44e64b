#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result_log.h"
#include "daemon/server/batch_record.h"
#include "proto/reply_writer.h"
#include "proto/submit_options.h"

// Replies about a batch.

namespace locksley::daemon {

// The map of STATUS.
void write_status(proto::ReplyWriter& reply, const BatchRecord& record, const BatchStatus& status);

// The array of RUN: [status, output] of each job, in the order of the indexes, of a batch that is over and
// has a row of each job. Outputs that `keep` does not want are empty. The error instead is the text of the
// error reply: the outputs are more than `max_bytes`.
std::expected<void, std::string> write_run_outputs(proto::ReplyWriter& reply, const BatchRecord& record,
                                                   proto::Keep keep, std::uint64_t max_bytes);

// The rows that a reply of RESULTS has: those from `cursor` on, at most `count`, and at most about
// `max_bytes`, but at least one if there is one. They stay as they are, whatever becomes of the batch.
struct ResultsPage {
  std::uint64_t first = 0;
  std::uint64_t rows = 0;
  std::uint64_t shown = 0;       // of these: not of a failure that was queued again since
  std::uint64_t superseded = 0;  // BatchStatus::superseded when it was made
  bool is_end = false;           // the batch is over, and there are no more
  std::vector<ResultLog::Piece> pieces;
};
// Whether the row at `place` tells of a failure that has been queued again: a later row tells how that ended.
inline bool is_superseded(std::uint64_t place, const ResultRow& row, std::uint64_t superseded) {
  return place < superseded && row.status != JobStatus::ok && row.status != JobStatus::cancelled;
}
// Calls visit(place, row) for each row that is shown, until it returns false.
template <class Visit>
void visit_results(const ResultsPage& page, const Visit& visit) {
  std::uint64_t place = page.first;
  ResultLog::visit(page.pieces, page.first, page.rows, [&](const ResultRow& row) {
    const std::uint64_t here = place++;
    return is_superseded(here, row, page.superseded) || visit(here, row);
  });
}
struct ResultsDemand {
  std::uint64_t cursor = 0;
  std::uint64_t count = 0;
  std::uint64_t max_bytes = 0;
};
// None if some of the rows are not in memory.
std::optional<ResultsPage> results_in_memory(const BatchRecord& record, const ResultsDemand& demand);
// [any thread] Reads from the store what is not in memory. Throws std::runtime_error if it cannot be read.
ResultsPage read_results(const BatchRecord& record, const ResultsDemand& demand);

// The reply of RESULTS: [next-cursor, [[index, status, output], …]].
//
// Cursors: 0 stands for the first row, n + 1 for row n; so the 0 that a reply gives can mean the end: the
// batch is over and everything was delivered. A cursor stays good as long as the batch is there; reading
// consumes nothing.
void write_results(proto::ReplyWriter& reply, const ResultsPage& page);
constexpr std::uint64_t row_of_cursor(std::uint64_t cursor) { return cursor == 0 ? 0 : cursor - 1; }

std::string no_such_batch(std::string_view id);
// What the store refused, and why.
std::string not_stored(std::string_view why);

}  // namespace locksley::daemon
