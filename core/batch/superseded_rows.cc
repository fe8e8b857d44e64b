#include "core/batch/superseded_rows.h"

#include <algorithm>
#include <utility>

#include "core/base/index_ranges.h"

namespace locksley {

bool SupersededRows::covers_one(std::uint64_t place, std::uint64_t index) const {
  const auto after =
      std::ranges::upper_bound(*jobs, index, {}, [](const auto& each) { return each.jobs.low; });
  if (after == jobs->begin()) return false;
  const SupersededJobs& each = *std::prev(after);
  return index < each.jobs.high && place < each.below;
}

void SupersededRows::add(std::span<const IndexRange> some, std::uint64_t row) {
  SupersededList all;
  if (jobs != nullptr) {
    for (const SupersededJobs& old : *jobs) {
      for (const IndexRange& left : difference({&old.jobs, 1}, some)) all.push_back({left, old.below});
    }
  }
  for (const IndexRange& range : some) all.push_back({range, row});
  std::ranges::sort(all, {}, [](const SupersededJobs& each) { return each.jobs.low; });
  auto merged = std::make_shared<SupersededList>();
  for (const SupersededJobs& each : all) {
    if (!merged->empty() && merged->back().jobs.high == each.jobs.low && merged->back().below == each.below) {
      merged->back().jobs.high = each.jobs.high;
    } else {
      merged->push_back(each);
    }
  }
  jobs = std::move(merged);
}

}  // namespace locksley
