#include "daemon/store/write/recent_results.h"

#include <algorithm>
#include <utility>

#include "core/batch/batch.h"

namespace locksley::daemon {

void RecentResults::add(std::weak_ptr<Batch> batch, std::uint64_t end, std::size_t row_bytes) {
  if (entries_.size() >= look_at_) remove_gone();
  entries_.push_back({std::move(batch), end, row_bytes + kEntryBytes});
  bytes_ += entries_.back().bytes;
}

void RecentResults::free(std::size_t down_to_bytes) {
  for (; bytes_ > down_to_bytes; entries_.pop_front()) {
    const Entry& oldest = entries_.front();
    if (const std::shared_ptr<Batch> batch = oldest.batch.lock()) batch->drop_rows_before(oldest.end);
    bytes_ -= oldest.bytes;
  }
}

void RecentResults::remove_gone() {
  std::erase_if(entries_, [this](const Entry& entry) {
    const bool is_gone = entry.batch.expired();
    if (is_gone) bytes_ -= entry.bytes;
    return is_gone;
  });
  look_at_ = std::max(kFewest, 2 * entries_.size());
}

}  // namespace locksley::daemon
