#include "daemon/server/commands/batch_replies.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "daemon/server/state/inspection.h"

namespace locksley::daemon {

namespace {

std::size_t digits_of(std::uint64_t value) {
  std::size_t digits = 1;
  for (; value >= 10; value /= 10) ++digits;
  return digits;
}

// "$<length>\r\n<bytes>\r\n"
std::size_t bulk_size(std::string_view bytes) { return 1 + digits_of(bytes.size()) + 2 + bytes.size() + 2; }

char* put_bulk(char* out, std::string_view bytes) {
  *out++ = '$';
  out = std::to_chars(out, out + 20, bytes.size()).ptr;
  *out++ = '\r';
  *out++ = '\n';
  out = std::copy_n(bytes.data(), bytes.size(), out);  // std::ranges::copy of g++ 12 goes byte by byte
  *out++ = '\r';
  *out++ = '\n';
  return out;
}

constexpr std::string_view kPair = "*2\r\n";

std::size_t pair_size(const ResultRow& row) {
  return kPair.size() + bulk_size(to_string(row.status)) + bulk_size(row.output);
}

char* put_pair(char* out, const ResultRow& row) {
  std::memcpy(out, kPair.data(), kPair.size());
  return put_bulk(put_bulk(out + kPair.size(), to_string(row.status)), row.output);
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
  const std::uint64_t rows = record.read_results(0, jobs, [&](const ResultRow& row) {
    check(row.index < jobs, "a result of a job that the batch does not have");
    place[row.index] = pair_size(wanted(row));
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
  record.read_results(0, jobs, [&](const ResultRow& row) {
    put_pair(begin + place[row.index], wanted(row));
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
