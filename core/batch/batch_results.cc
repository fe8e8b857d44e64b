#include "core/batch/batch_results.h"

#include <algorithm>
#include <stdexcept>

namespace locksley {

std::uint64_t Batch::Results::read(std::uint64_t first, std::uint64_t max_rows,
                                   const std::function<bool(const ResultRow&)>& visit) const {
  std::uint64_t end = 0;  // of the rows that existed at the first snapshot
  for (std::uint64_t at = first;;) {
    std::vector<ResultLog::Segment> segments;
    std::uint64_t next = 0;  // where the next snapshot begins
    {
      const MutexLock lock(batch_.mutex_);
      const ResultLog& log = batch_.log_;
      if (at < log.discarded()) {
        if (at == first) throw std::runtime_error("the rows were discarded");
        return at - first;
      }
      if (at == first) end = first + std::min(max_rows, log.rows() - std::min(first, log.rows()));
      if (at >= end) return at - first;
      if (at < log.first_row()) {
        next = std::min(end, log.first_row());
      } else {
        segments = log.snapshot(at, end - at);
        next = std::min(end, segments.back().first_row + segments.back().rows);
      }
    }
    const std::uint64_t read = segments.empty() ? batch_.journal_->read_rows(at, next - at, visit)
                                                : ResultLog::visit(segments, at, next - at, visit);
    at += read;
    if (at < next) return at - first;
  }
}

std::optional<std::vector<ResultLog::Segment>> Batch::Results::in_memory(std::uint64_t first,
                                                                         std::uint64_t max_rows,
                                                                         std::uint64_t max_bytes) const {
  const MutexLock lock(batch_.mutex_);
  if (max_rows != 0 && first < batch_.log_.first_row()) return std::nullopt;
  return batch_.log_.snapshot(first, max_rows, max_bytes);
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
