// The results of a batch, for readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/batch_journal.h"
#include "core/batch/result_log.h"

namespace locksley {

// The rows of results, in the order of completion: in memory, or in the batch's journal.
//
// A handle of a batch, which outlives it. Any thread. Each call holds the batch's mutex for some
// 100 us at a time, however many rows there are, and does not hold it while it visits rows. Only
// read() and read_others() may block, on a disk, and may throw.
class Batch::Results {
 public:
  // Visits results in the order of completion: the existing ones of rows [first, first + max_rows),
  // until `visit` returns false. Returns the number of rows consumed. Takes the mutex several times
  // if the rows are many, and ends early if the next row has been discarded meanwhile. Rows that
  // are not in memory come from the journal: that may block, and throws what
  // BatchJournal::read_rows() throws. Throws std::runtime_error if the first row was discarded.
  std::uint64_t read(std::uint64_t first, std::uint64_t max_rows,
                     const std::function<bool(const ResultRow&)>& visit) const;
  // The first of the same rows, as ResultLog::snapshot(), to be visited by ResultLog::visit(), also
  // after the batch is destroyed. None if row `first` must be read from the journal. Needs: the
  // first row was not discarded. Never blocks.
  std::optional<std::vector<ResultLog::Segment>> in_memory(
      std::uint64_t first, std::uint64_t max_rows, std::uint64_t max_bytes = ResultLog::kSnapshotBytes) const;

  // Visits the existing rows from `first` on that are not ok, each with its place, in order until
  // `visit` returns false. Returns the row before which all were visited. It may end early, but
  // makes progress by at least one row. Blocks and throws as read().
  std::uint64_t read_others(std::uint64_t first, const BatchJournal::VisitOther& visit) const;
  // The rows from `first` on that are not ok and in memory, in at most `most` segments. Segments of
  // ok rows alone are skipped. None if row `first` is not in memory. Needs: row `first` was not
  // discarded. Never blocks.
  std::optional<ResultLog::Others> others_in_memory(std::uint64_t first, std::size_t most) const;

  // As ResultLog::place_of(); for Batch::discard_rows_before().
  std::optional<ResultLog::Place> place_of(std::uint64_t row) const;

 private:
  friend class Batch;
  explicit Results(const Batch& batch) : batch_(batch) {}

  const Batch& batch_;
};

inline Batch::Results Batch::results() const { return Results(*this); }

}  // namespace locksley
