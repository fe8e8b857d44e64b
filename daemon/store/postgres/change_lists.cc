#include "daemon/store/postgres/change_lists.h"

#include <algorithm>

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kListBytes = 100;  // a row without its batches, and its entry of the index. Guess
constexpr std::uint64_t kBatchBytes = 12;  // of an element of an array

std::vector<std::int64_t> changed_batches(const PostgresGroup::OfTable& index) {
  std::vector<std::int64_t> batches;
  for (const PlaceRange& range : index.ranges) {
    batches.push_back(range.is_of_one_batch() ? range.low.batch : ChangeList::kOthers);
  }
  for (const auto& [place, value] : index.rows) batches.push_back(place.batch);
  std::ranges::sort(batches);
  const auto repeated = std::ranges::unique(batches);
  batches.erase(repeated.begin(), repeated.end());
  return batches;
}

}  // namespace

std::optional<ChangeList> ChangeLists::list(const PostgresGroup& group) {
  if (!may_write_ || !is_wanted_ || bytes_ >= kMost) return std::nullopt;
  ChangeList list{.half = half_, .batches = changed_batches(group.of(Table::kIndex))};
  bytes_ += kListBytes + list.batches.size() * kBatchBytes;
  return list;
}

PgExpected<Freed> ChangeLists::run(PgConnection& connection) {
  if (bytes_ < kFull) return Freed::kHasRows;
  const auto other = static_cast<std::int16_t>(1 - half_);
  const auto truncated = truncate_changes(connection, node_, other, now() + reply_);
  if (truncated && *truncated == Freed::kDone) {
    // A list that the writer makes between the two is not counted: at most one group's.
    half_ = other;
    bytes_ = 0;
  }
  return truncated;
}

}  // namespace locksley::daemon
