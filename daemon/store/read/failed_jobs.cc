#include "daemon/store/read/failed_jobs.h"

#include <fmt/format.h>

#include <string_view>

#include "core/base/index_ranges.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/read/reader.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

std::expected<bool, std::string> FailedJobsReading::read_part() {
  constexpr int kRows = 64;  // with 1,024 ranges each, of some 20 ns
  const EngineReading reading(engine_);
  if (!reading.is_valid()) return std::unexpected("cannot read the store: the disk fails; retry later");
  int rows = 0;
  bool is_whole = true;
  const auto visited = reading.visit(
      {.table = Table::kIndex, .low = failed_key(sequence_, next_row_), .high = failed_key(sequence_ + 1, 0)},
      [&](std::string_view, std::string_view value) {
        const auto row = decode_failed(value);
        is_whole = row.has_value();
        if (!is_whole) return false;
        ranges_->insert(ranges_->end(), row->begin(), row->end());
        jobs_ += count_of(*row);
        ++next_row_;
        return ++rows < kRows;
      });
  if (!visited) return std::unexpected(fmt::format("cannot read the store: {}", visited.error().what));
  if (!is_whole) return std::unexpected("the list of the failed jobs of a batch is damaged");
  return rows < kRows;
}

FailedJobList FailedJobsReading::take() {
  const auto free_aside = [&reader = reader_](const std::vector<IndexRange>* ranges) {
    reader.post([held = std::unique_ptr<const std::vector<IndexRange>>(ranges)] {});
  };
  return {{ranges_.release(), free_aside}, jobs_};
}

}  // namespace locksley::daemon
