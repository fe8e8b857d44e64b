#include "daemon/server/records/results_page.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "core/batch/handler.h"

namespace locksley::daemon {

namespace {

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

void begin(ResultsPage& page, const BatchRecord& record, const ResultsDemand& demand) {
  const BatchStatus status = record.status();
  page.first = std::max(row_of_cursor(demand.cursor), status.discarded);
  page.superseded = status.superseded;
}

}  // namespace

std::optional<ResultsPage> results_in_memory(const BatchRecord& record, const ResultsDemand& demand) {
  ResultsPage page;
  begin(page, record, demand);
  // Asked before the rows: what is over has them all.
  const bool is_over = record.is_over();
  PageRows rows(page, demand);
  auto segments = record.results_in_memory(page.first, rows.most());
  if (!segments) return std::nullopt;
  page.segments = std::move(*segments);
  ResultLog::visit(page.segments, page.first, rows.most(),
                   [&](const ResultRow& row) { return rows.take(row); });
  page.is_end = is_over && page.first + page.rows >= record.status().rows;
  return page;
}

ResultsPage read_results(const BatchRecord& record, const ResultsDemand& demand) {
  ResultsPage page;
  begin(page, record, demand);
  const bool is_over = record.is_over();
  PageRows taken(page, demand);
  // Copied into a piece of their own, as they would lie in memory.
  std::vector<std::byte> rows;
  record.read_results(page.first, taken.most(), [&](const ResultRow& row) {
    const std::uint64_t place = page.first + page.rows;
    if (!taken.take(row)) return false;
    // A superseded row is not shown, but it has its place.
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
    page.segments.push_back({std::move(chunk), page.first, page.rows, rows.size()});
  }
  page.is_end = is_over && page.first + page.rows >= record.status().rows;
  return page;
}

}  // namespace locksley::daemon
