#include "core/batch/batch_results.h"

#include <algorithm>
#include <stdexcept>

namespace locksley {

std::uint64_t Batch::Results::read(std::uint64_t first, std::uint64_t max_rows,
                                   const std::function<bool(const ResultRow&)>& visit) const {
  std::vector<ResultLog::Segment> segments;
  std::uint64_t elsewhere = 0;  // rows that are not in memory
  {
    const MutexLock lock(batch_.mutex_);
    if (first < batch_.log_.discarded()) throw std::runtime_error("the rows were discarded");
    elsewhere = std::min(max_rows, batch_.log_.first_row() - std::min(first, batch_.log_.first_row()));
    segments = batch_.log_.snapshot(first + elsewhere, max_rows - elsewhere);
  }
  const std::uint64_t read = elsewhere != 0 ? batch_.journal_->read_rows(first, elsewhere, visit) : 0;
  if (read < elsewhere) return read;
  return read + ResultLog::visit(segments, first + read, max_rows - read, visit);
}

std::optional<std::vector<ResultLog::Segment>> Batch::Results::in_memory(std::uint64_t first,
                                                                         std::uint64_t max_rows) const {
  const MutexLock lock(batch_.mutex_);
  if (max_rows != 0 && first < batch_.log_.first_row()) return std::nullopt;
  return batch_.log_.snapshot(first, max_rows);
}

std::optional<ResultLog::Others> Batch::Results::others_in_memory(std::uint64_t first,
                                                                  std::size_t most) const {
  const MutexLock lock(batch_.mutex_);
  if (first < batch_.log_.first_row()) return std::nullopt;
  return batch_.log_.others(first, most);
}

std::uint64_t Batch::Results::read_others(std::uint64_t first, const BatchJournal::VisitOther& visit) const {
  constexpr std::size_t kSegments = 1000;  // a guess
  std::uint64_t elsewhere = 0;             // rows before it are not in memory
  ResultLog::Others in_memory;
  {
    const MutexLock lock(batch_.mutex_);
    if (first < batch_.log_.discarded()) throw std::runtime_error("the rows were discarded");
    elsewhere = batch_.log_.first_row();
    in_memory = batch_.log_.others(std::max(first, elsewhere), kSegments);
  }
  if (first < elsewhere) {
    const std::uint64_t read = batch_.journal_->read_others(first, elsewhere, visit);
    if (read < elsewhere) return read;
  }
  return ResultLog::visit_others(in_memory.segments, first, in_memory.end, visit);
}

std::optional<ResultLog::Place> Batch::Results::place_of(std::uint64_t row) const {
  const MutexLock lock(batch_.mutex_);
  return batch_.log_.place_of(row);
}

bool Batch::drop_rows_before(std::uint64_t row, std::size_t most_chunks) {
  const MutexLock lock(mutex_);
  const bool is_done = log_.drop_before(row, most_chunks);
  charge_results();
  return is_done;
}

void Batch::discard_rows_before(std::uint64_t row, const ResultLog::Place& place) {
  const MutexLock lock(mutex_);
  log_.discard_before(row, place);
}

}  // namespace locksley
