// Counts the rows of a batch in a store, and finds rows that belong to nothing in the model.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/rows/rows.h"
#include "tests/support/store_model.h"

namespace locksley::testing {

std::size_t count_rows(const std::vector<RawRow>& rows, std::uint64_t sequence) {
  return static_cast<std::size_t>(std::ranges::count(rows, sequence, &RawRow::sequence));
}

std::size_t count_rows(const std::vector<RawRow>& rows, std::uint64_t sequence, std::string_view family) {
  return static_cast<std::size_t>(std::ranges::count_if(
      rows, [&](const RawRow& row) { return row.sequence == sequence && row.family == family; }));
}

std::vector<std::string> rows_of_nothing(const std::vector<RawRow>& rows, const StoreModel& model) {
  std::vector<std::string> findings;
  for (const RawRow& row : rows) {
    const auto found = model.batches.find(row.sequence);
    if (found == model.batches.end()) {
      findings.push_back(fmt::format("a row of {} '{}' of batch {}, which is not there", row.family,
                                     row.kind == 0 ? '-' : row.kind, row.sequence));
      continue;
    }
    const StoreModel::Batch& batch = found->second;
    if (row.family == "payloads" && batch.payloads.empty()) {
      findings.push_back(fmt::format("payloads of batch {}, which has none", row.sequence));
    }
    if (row.family == "payloads" && row.first >= batch.jobs()) {
      findings.push_back(fmt::format("payloads of batch {} from {} on, and it has {} jobs", row.sequence,
                                     row.first, batch.jobs()));
    }
    if (row.kind == daemon::kFailedKey && (!batch.is_over() || batch.failed.empty())) {
      findings.push_back(fmt::format("failed jobs of batch {}, which has none or goes on", row.sequence));
    }
    if (row.kind == daemon::kStepKey && batch.is_over()) {
      findings.push_back(fmt::format("a step of batch {}, which is over", row.sequence));
    }
  }
  return findings;
}

}  // namespace locksley::testing
