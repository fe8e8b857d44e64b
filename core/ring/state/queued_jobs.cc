#include "core/ring/state/queued_jobs.h"

#include "core/base/check.h"
#include "core/base/index_ranges.h"

namespace locksley {

namespace {

// Moves the indexes of `range` that are in `wanted` to `taken`, and the others to `left`.
void divide(IndexRange range, IndexRange wanted, std::vector<IndexRange>& taken,
            std::vector<IndexRange>& left) {
  if (range.empty()) return;
  const IndexRange both{std::max(range.low, wanted.low), std::min(range.high, wanted.high)};
  if (both.low >= both.high) {
    left.push_back(range);
    return;
  }
  taken.push_back(both);
  if (range.low < both.low) left.push_back({range.low, both.low});
  if (both.high < range.high) left.push_back({both.high, range.high});
}

}  // namespace

void QueuedJobs::add(IndexRange range) {
  if (range.empty()) return;
  if (range.high <= end_) return give_back(range);
  check(range.low >= end_, "a range overlaps the indexes added before");
  if (range.low != end_) {
    if (tail_ < end_) ranges_.push_back({tail_, end_});
    tail_ = range.low;
  }
  end_ = range.high;
  size_ += range.size();
}

QueuedJobs::Prepared::Prepared(std::span<const IndexRange> ranges, std::size_t more) : more_(more) {
  descending_.reserve(ranges.size() + more + 1);  // one for take_all()
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    if (!range->empty()) descending_.push_back(*range);
  }
  jobs_ = count_of(descending_);
}

void QueuedJobs::queue_again(Prepared& prepared) {
  std::vector<IndexRange>& descending = prepared.descending_;
  if (!ranges_.empty()) {
    if (prepared.more_ != 0) ranges_.reserve(ranges_.size() + descending.size() + prepared.more_);
    for (const IndexRange& range : descending) give_back(range);
    return;
  }
  if (!descending.empty() && descending.front().high == tail_) {
    tail_ = descending.front().low;
    descending.front().high = tail_;  // removing it would move all the others
    if (descending.size() == 1) descending.clear();
  }
  ranges_.swap(descending);
  size_ += prepared.jobs_;
}

IndexRange QueuedJobs::withdraw(std::uint64_t from) {
  const IndexRange withdrawn{std::max(from, tail_), end_};
  if (withdrawn.low >= withdrawn.high) return {};
  end_ = withdrawn.low;
  size_ -= withdrawn.size();
  return withdrawn;
}

std::vector<IndexRange> QueuedJobs::take_all() {
  std::vector<IndexRange> all = std::exchange(ranges_, {});
  if (tail_ < end_) all.push_back({tail_, end_});
  tail_ = end_;
  size_ = 0;
  return all;
}

std::vector<IndexRange> QueuedJobs::take_common(IndexRange wanted, std::size_t most) {
  std::vector<IndexRange> taken;
  std::vector<IndexRange> left;
  const auto first = ranges_.end() - static_cast<std::ptrdiff_t>(std::min(ranges_.size(), most));
  for (auto range = first; range != ranges_.end(); ++range) divide(*range, wanted, taken, left);
  std::vector<IndexRange> of_tail;
  if (tail_ < end_) divide({tail_, end_}, wanted, taken, of_tail);
  if (taken.empty()) return taken;
  ranges_.erase(first, ranges_.end());
  tail_ = of_tail.empty() ? end_ : of_tail.back().low;
  if (of_tail.size() == 2) ranges_.push_back(of_tail.front());
  if (of_tail.size() == 1 && of_tail.back().high != end_) {
    ranges_.push_back(of_tail.back());
    tail_ = end_;
  }
  ranges_.insert(ranges_.end(), left.begin(), left.end());
  drop_empty();
  size_ -= count_of(taken);
  return sorted(std::move(taken));
}

std::optional<bool> QueuedJobs::has(std::uint64_t index, std::size_t most) const {
  if (index >= tail_ && index < end_) return true;
  if (ranges_.size() > most) return std::nullopt;
  return std::ranges::any_of(
      ranges_, [index](const IndexRange& range) { return index >= range.low && index < range.high; });
}

}  // namespace locksley
