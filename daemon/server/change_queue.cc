#include "daemon/server/change_queue.h"

#include <spdlog/logger.h>

#include <utility>

namespace locksley::daemon {

ChangeQueue::ChangeQueue(std::function<void()> wake, std::shared_ptr<spdlog::logger> log)
    : wake_(std::move(wake)), log_(std::move(log)) {}

void ChangeQueue::batch_changed(const std::shared_ptr<Batch>& batch) {
  // Every batch that has this observer is a BatchRecord.
  auto record = std::static_pointer_cast<BatchRecord>(batch);
  if (record->origin == BatchRecord::Origin::kRun && !record->is_over()) return;
  if (!record->set_changed()) return;
  bool was_empty;
  {
    const std::lock_guard lock(mutex_);
    was_empty = changed_.empty();
    changed_.push_back(std::move(record));
  }
  if (was_empty) wake_();
}

void ChangeQueue::handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) {
  log_->debug("handler threw batch={} job={} what=\"{}\"", batch.id(), index, what);
}

ChangeQueue::Records ChangeQueue::take() {
  Records taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(changed_);
  }
  // From here on a change queues the batch again, so what the caller reads next is never the last word
  // unseen.
  for (const auto& record : taken) record->clear_changed();
  return taken;
}

}  // namespace locksley::daemon
