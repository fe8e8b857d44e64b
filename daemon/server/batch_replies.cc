#include "daemon/server/batch_replies.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/handler.h"
#include "daemon/server/inspection.h"
#include "proto/text.h"

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
  out = std::ranges::copy(bytes, out).out;
  *out++ = '\r';
  *out++ = '\n';
  return out;
}

constexpr std::size_t kRowHead = 40;               // of RESULTS, about what surrounds an output
constexpr std::uint64_t kMostPassedOver = 10'000;  // of RESULTS in one page; guess: a millisecond

// Which rows a page takes: those that are shown, as many as the demand allows, and what lies between them.
class PageRows {
 public:
  // `page` has its first row and what is superseded.
  PageRows(ResultsPage& page, const ResultsDemand& demand) : page_(page), demand_(demand) {}

  // So many rows may be looked at.
  std::uint64_t most() const {
    const std::uint64_t superseded = page_.superseded - std::min(page_.superseded, page_.first);
    return demand_.count + std::min(kMostPassedOver, superseded);
  }
  // The next row; false if it is not of this page.
  bool take(const ResultRow& row) {
    if (is_superseded(page_.first + page_.rows, row, page_.superseded)) {
      if (++passed_over_ > kMostPassedOver) return false;
    } else {
      if (page_.shown == demand_.count) return false;
      bytes_ += row.output.size() + kRowHead;
      if (page_.shown != 0 && bytes_ > demand_.max_bytes) return false;
      ++page_.shown;
    }
    ++page_.rows;
    return true;
  }

 private:
  ResultsPage& page_;
  const ResultsDemand& demand_;
  std::uint64_t bytes_ = 0;
  std::uint64_t passed_over_ = 0;
};

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
  // Rows are in the order of completion. Looked through twice: for the size of each, from which follows where
  // it goes in the order of the indexes; then to write each there. No sorting, no copy of an output but the
  // one into the reply.
  const auto wanted = [keep](ResultRow row) {
    if (keep == proto::Keep::kNone || (keep == proto::Keep::kFailures && row.status == JobStatus::ok))
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

std::optional<ResultsPage> results_in_memory(const BatchRecord& record, const ResultsDemand& demand) {
  ResultsPage page;
  page.first = row_of_cursor(demand.cursor);
  page.superseded = record.status().superseded;
  // Asked before the rows: what is over has them all.
  const bool is_over = record.is_over();
  PageRows rows(page, demand);
  auto pieces = record.results_in_memory(page.first, rows.most());
  if (!pieces) return std::nullopt;
  page.pieces = std::move(*pieces);
  ResultLog::visit(page.pieces, page.first, rows.most(),
                   [&](const ResultRow& row) { return rows.take(row); });
  page.is_end = is_over && page.first + page.rows >= record.status().rows;
  return page;
}

ResultsPage read_results(const BatchRecord& record, const ResultsDemand& demand) {
  ResultsPage page;
  page.first = row_of_cursor(demand.cursor);
  page.superseded = record.status().superseded;
  const bool is_over = record.is_over();
  PageRows taken(page, demand);
  // Copied into a piece of their own, as they would lie in memory.
  std::vector<std::byte> rows;
  record.read_results(page.first, taken.most(), [&](const ResultRow& row) {
    const std::uint64_t place = page.first + page.rows;
    if (!taken.take(row)) return false;
    // Nobody sees what is superseded, but it has its place.
    const std::string_view output =
        is_superseded(place, row, page.superseded) ? std::string_view() : row.output;
    const ResultHead head{row.index, static_cast<std::uint32_t>(output.size()), row.status, {}};
    const std::size_t begin = rows.size();
    rows.resize(begin + ResultHead::bytes_of(output.size()));
    std::memcpy(rows.data() + begin, &head, sizeof head);
    if (!output.empty()) std::memcpy(rows.data() + begin + sizeof head, output.data(), output.size());
    return true;
  });
  if (!rows.empty()) {
    auto chunk = std::make_shared<ResultLog::Chunk>();
    chunk->bytes = std::make_unique_for_overwrite<std::byte[]>(rows.size());
    chunk->capacity = rows.size();
    std::memcpy(chunk->bytes.get(), rows.data(), rows.size());
    page.pieces.push_back({std::move(chunk), page.first, page.rows, rows.size()});
  }
  page.is_end = is_over && page.first + page.rows >= record.status().rows;
  return page;
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

std::string not_stored(std::string_view why) {
  return fmt::format(
      "STORE the disk did not take it: nothing was accepted, try again later; a change of what is there "
      "already "
      "holds, and is written later ({})",
      why);
}

std::string no_such_batch(std::string_view id) {
  return fmt::format("NOBATCH there is no batch '{}': unknown, or forgotten", proto::printable(id));
}

}  // namespace locksley::daemon
