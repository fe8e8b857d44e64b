#include "daemon/server/batches/news/change_queue.h"

#include <spdlog/logger.h>

#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

ChangeQueue::ChangeQueue(std::function<void()> wake, std::shared_ptr<spdlog::logger> log)
    : wake_(std::move(wake)), log_(std::move(log)) {}

void ChangeQueue::batch_changed(const std::shared_ptr<Batch>& batch) {
  // Every batch that has this observer is a BatchRecord.
  auto record = std::static_pointer_cast<BatchRecord>(batch);
  const bool is_over = record->is_over();
  if (record->only_end_is_news && !is_over) return;
  const bool is_urgent = is_over || record->waiters.for_rows.load() != 0;
  const bool is_first = record->set_changed();
  if (!is_first && !is_urgent) return;
  bool wakes;
  {
    const MutexLock lock(mutex_);
    if (is_first) {
      const LineNumber line = record->line;
      changed_.push(line, std::move(record));
      goes_on_ = goes_on_ || !is_over;
    }
    wakes = !woken_ && (is_urgent || !holding_off_);
    woken_ = woken_ || wakes;
  }
  if (wakes) wake_();
}

void ChangeQueue::handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) {
  if (!log_->should_log(spdlog::level::warn)) return;
  std::optional<std::uint64_t> held_back;
  {
    const MutexLock lock(gates_mutex_);
    held_back = open(threw_);
  }
  if (held_back) {
    LogLine("handler threw")
        .about(batch)
        .with("job", index)
        .with("what", what)
        .with("unlogged", *held_back)
        .write(*log_, spdlog::level::warn);
  }
}

std::optional<std::uint64_t> ChangeQueue::open(RateGate& gate) {
  return gate.open(now()) ? std::optional(gate.held_back()) : std::nullopt;
}

void ChangeQueue::attempt_failed(const Batch& batch, std::uint64_t index, JobStatus status,
                                 std::string_view output) {
  if (!log_->should_log(spdlog::level::debug)) return;
  constexpr std::size_t kMostBytes = 200;  // guess: still a readable line
  std::optional<std::uint64_t> held_back;
  {
    const MutexLock lock(gates_mutex_);
    held_back = open(attempts_);
  }
  if (held_back) {
    LogLine("job failed and is tried again")
        .about(batch)
        .with("job", index)
        .with("status", to_string(status))
        .with("output", output.substr(0, kMostBytes))
        .with("unlogged", *held_back)
        .write(*log_, spdlog::level::debug);
  }
}

ChangeQueue::Taken ChangeQueue::take(NextTake next) {
  Taken taken;
  {
    const MutexLock lock(mutex_);
    if (!changed_.empty()) taken.records.reserve(kMostAtOnce);
    while (!changed_.empty() && taken.records.size() < kMostAtOnce) {
      taken.records.push_back(changed_.pop().item);
    }
    taken.has_more = woken_ = !changed_.empty();
    taken.must_call_again = std::exchange(goes_on_, false);
    holding_off_ = taken.must_call_again || next == NextTake::kScheduled;
  }
  // From here on a change queues the batch again, so the caller misses no change.
  for (const auto& record : taken.records) record->clear_changed();
  return taken;
}

}  // namespace locksley::daemon
