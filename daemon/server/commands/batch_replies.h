#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/results_page.h"
#include "proto/reply_writer.h"
#include "proto/submit_options.h"

// Replies about a batch.

namespace locksley::daemon {

// The map of STATUS.
void write_status(proto::ReplyWriter& reply, const BatchRecord& record, const BatchStatus& status);

// The array of RUN: [status, output] of each job, in the order of the indexes. Outputs that `keep` excludes are
// empty. Needs: the batch is over and has a row for each job. Fails if the outputs take more than `max_bytes`,
// with the text of the error reply.
std::expected<void, std::string> write_run_outputs(proto::ReplyWriter& reply, const BatchRecord& record,
                                                   proto::Keep keep, std::uint64_t max_bytes);

// The reply of RESULTS: [next-cursor, [[index, status, output], …]].
//
// Cursors: 0 stands for the first row, n + 1 for row n; so 0 in a reply can mean the end: the batch is over and
// every row was delivered. A cursor is valid as long as the batch exists; reading consumes nothing.
void write_results(proto::ReplyWriter& reply, const ResultsPage& page);

}  // namespace locksley::daemon
