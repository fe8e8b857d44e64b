// Pages of a batch's results: which rows a reply of RESULTS has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/batch/result_log.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

// Cursor 0 stands for the first row, and n + 1 for row n. So a reply can use 0 for the end: the
// batch is over, and every row was delivered. A cursor is valid as long as the batch exists;
// reading alone removes nothing.
constexpr std::uint64_t row_of_cursor(std::uint64_t cursor) { return cursor == 0 ? 0 : cursor - 1; }

// The rows of one reply of RESULTS: from `cursor` on, or from the first row that was not discarded.
// At most `count` rows, and about `max_bytes` bytes; but at least one row if the batch has one
// there. It may have fewer rows than would fit, if they lie in many chunks of memory. The page
// shares the memory of its rows, so it stays valid when the batch changes or is forgotten.
struct ResultsPage {
  std::uint64_t first = 0;
  std::uint64_t rows = 0;
  std::uint64_t shown = 0;    // how many of these are shown: not superseded, and with only_others not ok
  SupersededRows superseded;  // BatchStatus::superseded when the page was made
  bool only_others = false;   // only rows that are not ok are shown; those are in `segments`
  bool is_end = false;        // the batch is over, and there are no more
  std::vector<ResultLog::Segment> segments;

  // The memory of the rows.
  std::size_t memory_bytes() const {
    std::size_t sum = 0;
    for (const ResultLog::Segment& segment : segments) sum += segment.size_bytes;
    return sum;
  }
};
// Whether the row at `place` is superseded: its job failed and was queued again since. A later row
// has the outcome of that attempt.
inline bool is_superseded(std::uint64_t place, const ResultRow& row, const SupersededRows& superseded) {
  return is_failure(row.status) && superseded.covers(place, row.index);
}
// Calls visit(place, row) for each row that is shown, until it returns false.
template <class Visit>
void visit_results(const ResultsPage& page, const Visit& visit) {
  const std::uint64_t end = page.first + page.rows;
  if (page.only_others) {
    ResultLog::visit_others(page.segments, page.first, end, [&](std::uint64_t place, const ResultRow& row) {
      return place < end && (is_superseded(place, row, page.superseded) || visit(place, row));
    });
    return;
  }
  std::uint64_t place = page.first;
  ResultLog::visit(page.segments, page.first, page.rows, [&](const ResultRow& row) {
    const std::uint64_t here = place++;
    return is_superseded(here, row, page.superseded) || visit(here, row);
  });
}
// The request for a page of RESULTS: which rows it has.
struct ResultsDemand {
  std::uint64_t cursor = 0;
  std::uint64_t count = 0;
  std::uint64_t max_bytes = 0;
  bool only_others = false;  // only rows that are not ok
};
// None if some of the rows are not in memory.
std::optional<ResultsPage> results_in_memory(const BatchRecord& record, const ResultsDemand& demand);
// [any thread] Reads rows that are not in memory from the store. Throws std::runtime_error if it
// cannot be read, or if its first rows are discarded meanwhile.
ResultsPage read_results(const BatchRecord& record, const ResultsDemand& demand);

}  // namespace locksley::daemon
