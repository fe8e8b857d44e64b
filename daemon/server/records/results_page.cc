#include "daemon/server/records/results_page.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "core/batch/batch_results.h"
#include "core/batch/handler.h"

namespace locksley::daemon {

namespace {

constexpr std::size_t kRowHead = 40;               // of RESULTS, about what surrounds an output
constexpr std::uint64_t kMostPassedOver = 10'000;  // of RESULTS in one page; guess: a millisecond

// Decides which rows a page takes: as many shown rows as the demand allows, and the rows between
// them.
class PageRows {
 public:
  // Needs: page.first and page.superseded are set.
  PageRows(ResultsPage& page, const ResultsDemand& demand) : page_(page), demand_(demand) {}

  // The number of rows that may be looked at.
  std::uint64_t most() const {
    const std::uint64_t below = page_.superseded.below;
    const std::uint64_t superseded = below - std::min(below, page_.first);
    const bool has_list = page_.superseded.jobs != nullptr;
    return demand_.count + (has_list ? kMostPassedOver : std::min(kMostPassedOver, superseded));
  }
  // The next row; false if it is not of this page.
  bool take(const ResultRow& row) {
    if (!fits(page_.first + page_.rows, row)) return false;
    ++page_.rows;
    return true;
  }
  // The same for the row at `place`, if the reader has skipped rows before it.
  bool fits(std::uint64_t place, const ResultRow& row) {
    if (is_superseded(place, row, page_.superseded)) return ++passed_over_ <= kMostPassedOver;
    if (page_.shown == demand_.count) return false;
    bytes_ += row.output.size() + kRowHead;
    if (page_.shown != 0 && bytes_ > demand_.max_bytes) return false;
    ++page_.shown;
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
  page.only_others = demand.only_others;
}

std::optional<ResultsPage> others_in_memory(const BatchRecord& record, const ResultsDemand& demand) {
  constexpr std::size_t kSegments = 1000;
  ResultsPage page;
  begin(page, record, demand);
  const bool is_over = record.is_over();
  auto others = record.results().others_in_memory(page.first, kSegments);
  if (!others) return std::nullopt;
  PageRows rows(page, demand);
  const std::uint64_t end = ResultLog::visit_others(
      others->segments, page.first, others->end,
      [&](std::uint64_t place, const ResultRow& row) { return rows.fits(place, row); });
  page.rows = end - page.first;
  page.segments = std::move(others->segments);
  page.is_end = is_over && end >= record.status().rows;
  return page;
}

// Rows that were copied one after another, as they lie in memory.
class CopiedRows {
 public:
  void add(const ResultRow& row, std::string_view output) {
    append_row(bytes_, row.index, row.status, output);
  }
  // Moves the rows into a segment of their own, whose first row is `first`. No effect if there are
  // none.
  void put_into(std::vector<ResultLog::Segment>& segments, std::uint64_t first, std::uint64_t rows) {
    if (bytes_.empty()) return;
    auto chunk = std::make_shared<ResultLog::Chunk>();
    chunk->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes_.size());
    chunk->capacity = bytes_.size();
    std::memcpy(chunk->bytes.get(), bytes_.data(), bytes_.size());
    segments.push_back({std::move(chunk), first, rows, bytes_.size(), true});
    bytes_.clear();
  }

 private:
  std::vector<std::byte> bytes_;
};

ResultsPage read_others(const BatchRecord& record, const ResultsDemand& demand) {
  ResultsPage page;
  begin(page, record, demand);
  const bool is_over = record.is_over();
  PageRows taken(page, demand);
  CopiedRows copied;
  const std::uint64_t end =
      record.results().read_others(page.first, [&](std::uint64_t place, const ResultRow& row) {
        const std::uint64_t shown = page.shown;
        if (!taken.fits(place, row)) return false;
        if (page.shown != shown) {
          copied.add(row, row.output);
          copied.put_into(page.segments, place, 1);
        }
        return true;
      });
  page.rows = end - page.first;
  page.is_end = is_over && end >= record.status().rows;
  return page;
}

}  // namespace

std::optional<ResultsPage> results_in_memory(const BatchRecord& record, const ResultsDemand& demand) {
  if (demand.only_others) return others_in_memory(record, demand);
  ResultsPage page;
  begin(page, record, demand);
  // Read before the rows: a batch that is over has all its rows.
  const bool is_over = record.is_over();
  PageRows rows(page, demand);
  // Twice the bytes of the page: a row in memory also has facts. If these are longer, the page ends
  // early.
  auto segments = record.results().in_memory(page.first, rows.most(), 2 * demand.max_bytes);
  if (!segments) return std::nullopt;
  page.segments = std::move(*segments);
  ResultLog::visit(page.segments, page.first, rows.most(),
                   [&](const ResultRow& row) { return rows.take(row); });
  // The page keeps no memory of rows that are not its own.
  while (!page.segments.empty() && page.segments.back().first_row >= page.first + page.rows) {
    page.segments.pop_back();
  }
  page.is_end = is_over && page.first + page.rows >= record.status().rows;
  return page;
}

ResultsPage read_results(const BatchRecord& record, const ResultsDemand& demand) {
  if (demand.only_others) return read_others(record, demand);
  ResultsPage page;
  begin(page, record, demand);
  const bool is_over = record.is_over();
  PageRows taken(page, demand);
  CopiedRows copied;
  record.results().read(page.first, taken.most(), [&](const ResultRow& row) {
    const std::uint64_t place = page.first + page.rows;
    if (!taken.take(row)) return false;
    // A superseded row is not shown, but it has its place.
    copied.add(row, is_superseded(place, row, page.superseded) ? std::string_view() : row.output);
    return true;
  });
  copied.put_into(page.segments, page.first, page.rows);
  page.is_end = is_over && page.first + page.rows >= record.status().rows;
  return page;
}

}  // namespace locksley::daemon
