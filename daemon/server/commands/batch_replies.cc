#include "daemon/server/commands/batch_replies.h"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/batch/batch_results.h"
#include "daemon/server/state/inspection.h"
#include "proto/bulk.h"

namespace locksley::daemon {

namespace {

// A row of RUN: [status, output].
constexpr std::string_view kRunRow = "*2\r\n";

std::size_t run_row_bytes(const ResultRow& row) {
  return kRunRow.size() + proto::bulk_bytes(to_string(row.status).size()) +
         proto::bulk_bytes(row.output.size());
}

void write_run_row(char* to, const ResultRow& row) {
  std::memcpy(to, kRunRow.data(), kRunRow.size());
  proto::write_bulk(proto::write_bulk(to + kRunRow.size(), to_string(row.status)), row.output);
}

}  // namespace

void write_status(proto::ReplyWriter& reply, const BatchRecord& record, const BatchStatus& status) {
  reply.map(kStatusMembers);
  visit_members(record, status, [&]<class Value>(std::string_view key, const Value& value) {
    reply.bulk(key);
    if constexpr (std::is_convertible_v<Value, std::string_view>) {
      reply.bulk(value);
    } else {
      reply.integer(static_cast<std::int64_t>(value));
    }
  });
}

std::expected<void, std::string> write_run_outputs(proto::ReplyWriter& reply, const BatchRecord& record,
                                                   proto::Keep keep, std::uint64_t max_bytes) {
  // Rows are in the order of completion. The first pass takes the size of each row, from which follows its
  // place in the order of the indexes; the second writes each row there. Nothing is sorted, and each output is
  // copied once, into the reply.
  const auto wanted = [keep](ResultRow row) {
    if (keep == proto::Keep::kNone || (keep == proto::Keep::kFailures && row.status == JobStatus::kOk))
      row.output = {};
    return row;
  };
  const std::uint64_t jobs = record.status().jobs;
  std::vector<std::uint64_t> place(jobs);
  const std::uint64_t rows = record.results().read(0, jobs, [&](const ResultRow& row) {
    check(row.index < jobs, "a result of a job that the batch does not have");
    place[row.index] = run_row_bytes(wanted(row));
    return true;
  });
  check(rows == jobs, "a batch that is over lacks results");
  std::uint64_t total = 0;
  for (std::uint64_t& entry : place) total += std::exchange(entry, total);
  if (total > max_bytes) {
    return std::unexpected(fmt::format(
        "TOOBIG the outputs take {} bytes, and limits.output_buffer is {}: use SUBMIT and RESULTS", total,
        max_bytes));
  }
  reply.array(jobs);
  char* const begin = reply.buffer().reserve(total);
  record.results().read(0, jobs, [&](const ResultRow& row) {
    write_run_row(begin + place[row.index], wanted(row));
    return true;
  });
  reply.buffer().commit(total);
  return {};
}

void write_results(proto::ReplyWriter& reply, const ResultsPage& page) {
  reply.array(2);
  reply.bulk_integer(page.is_end ? 0 : static_cast<std::int64_t>(page.first + page.rows + 1));
  reply.array(page.shown);
  visit_results(page, [&](std::uint64_t, const ResultRow& row) {
    reply.result_row(row.index, to_string(row.status), row.output);
    return true;
  });
}

}  // namespace locksley::daemon
