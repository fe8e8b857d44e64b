#include "core/batch/batch_journal.h"

#include <algorithm>

namespace locksley {

std::uint64_t EndedJobs::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : by_status) sum += count;
  return sum;
}

std::uint64_t BatchJournal::read_others(std::uint64_t first, std::uint64_t end, const VisitOther& visit) {
  std::uint64_t place = first;
  read_rows(first, std::min(end - first, kMostPassed), [&](const ResultRow& row) {
    if (row.status != JobStatus::kOk && !visit(place, row)) return false;
    ++place;
    return true;
  });
  return place;
}

}  // namespace locksley
