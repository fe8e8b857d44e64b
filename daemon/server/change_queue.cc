#include "daemon/server/change_queue.h"

#include <spdlog/logger.h>

#include <utility>

#include "daemon/log_line.h"

namespace locksley::daemon {

ChangeQueue::ChangeQueue(std::function<void()> wake, std::shared_ptr<spdlog::logger> log)
    : wake_(std::move(wake)), log_(std::move(log)) {}

void ChangeQueue::batch_changed(const std::shared_ptr<Batch>& batch) {
  // Every batch that has this observer is a BatchRecord.
  auto record = std::static_pointer_cast<BatchRecord>(batch);
  const bool is_over = record->is_over();
  if (record->only_end_is_news && !is_over) return;
  const bool is_urgent = is_over || record->row_waiters.load() != 0;
  const bool is_first = record->set_changed();
  if (!is_first && !is_urgent) return;
  bool wakes;
  {
    const std::lock_guard lock(mutex_);
    if (is_first) {
      changed_.push_back(std::move(record));
      goes_on_ = goes_on_ || !is_over;
    }
    wakes = !woken_ && (is_urgent || !holding_off_);
    woken_ = woken_ || wakes;
  }
  if (wakes) wake_();
}

void ChangeQueue::handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) {
  if (!log_->should_log(spdlog::level::warn)) return;
  if (const auto held_back = open(threw_)) {
    LogLine("handler threw")
        .about(batch)
        .with("job", index)
        .with("what", what)
        .with("unlogged", *held_back)
        .write(*log_, spdlog::level::warn);
  }
}

std::optional<std::uint64_t> ChangeQueue::open(RateGate& gate) {
  const std::lock_guard lock(gates_mutex_);
  return gate.open(std::chrono::steady_clock::now()) ? std::optional(gate.held_back()) : std::nullopt;
}

void ChangeQueue::job_tried_in_vain(const Batch& batch, std::uint64_t index, JobStatus status,
                                    std::string_view output) {
  if (!log_->should_log(spdlog::level::debug)) return;
  constexpr std::size_t kMostBytes = 200;  // guess: what a line can bear
  if (const auto held_back = open(tried_)) {
    LogLine("job failed and is tried again")
        .about(batch)
        .with("job", index)
        .with("status", to_string(status))
        .with("output", output.substr(0, kMostBytes))
        .with("unlogged", *held_back)
        .write(*log_, spdlog::level::debug);
  }
}

ChangeQueue::Taken ChangeQueue::take() {
  Taken taken;
  {
    const std::lock_guard lock(mutex_);
    taken.records.swap(changed_);
    woken_ = false;
    taken.comes_again = holding_off_ = std::exchange(goes_on_, false);
  }
  // From here on a change queues the batch again, so what the caller reads next is never the last word
  // unseen.
  for (const auto& record : taken.records) record->clear_changed();
  return taken;
}

}  // namespace locksley::daemon
