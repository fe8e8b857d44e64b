#include "daemon/server/batches.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "daemon/log_line.h"
#include "daemon/server/received_payloads.h"
#include "daemon/server/streamed_payloads.h"
#include "daemon/server/wakeup.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {
constexpr auto kProgressPeriod = std::chrono::milliseconds(250);  // at most 4 a second, as the interface says
}  // namespace

Batches::Batches(asio::io_context& io, const config::Config& config, HandlerDirectory& handlers,
                 ServerStats& stats, Store* store, std::shared_ptr<spdlog::logger> log)
    : config_(config),
      handlers_(handlers),
      stats_(stats),
      store_(store),
      io_(io),
      log_(std::move(log)),
      registry_(stats),
      events_(stats),
      changes_([this, &io] { asio::post(io, [this] { take_changes(); }); }, log_),
      due_timer_(io),
      changes_timer_(io) {
  registry_.load_with([this](std::uint64_t sequence) { return load(sequence); });
}

void Batches::apply_changes() {
  const ChangeQueue::Taken taken = changes_.take();
  const Instant at = now();
  for (const auto& record : taken.records) changed(*record, at);
  if (taken.comes_again && !changes_timer_armed_) {
    changes_timer_armed_ = true;
    changes_timer_.expires_after(ChangeQueue::kHoldOff);
    changes_timer_.async_wait([this](const asio::error_code& stopped) {
      if (stopped) return;
      changes_timer_armed_ = false;
      take_changes();
    });
  }
  arm_timer();
}

void Batches::take_changes() {
  apply_changes();
  retire_finished();
  make_room(0);
  look_whether_idle();
}

void Batches::changed(BatchRecord& record, Instant at) {
  const BatchStatus status = record.status();
  if (record.is_stored() && record.is_active) {
    const bool is_over = status.finished_at != 0;
    if (is_over && status.failed == 0) record.stored_payload_bytes = 0;
    count_stored(record, status.result_bytes);
    if (is_over) {
      retained_.insert(record.sequence);
      finished_.push_back(record.sequence);
      // Its last step was put before its status said so.
      record.end_ticket = store_->gathering();
    }
  }
  if (record.is_active && record.origin != BatchRecord::Origin::kRun) tell_subscribers(record, status, at);
  if (registry_.update(record, status, at)) ended(record, status);
  if (record.is_active) schedule_retry(record, status);
  if (record.is_active) free_payloads(record, status);
  wake_waiters(record, status.rows);
}

void Batches::wake_waiters(BatchRecord& record, std::uint64_t rows) {
  // So many at a time that the connections that do not wait have their turns between.
  constexpr int kAtOnce = 64;
  const bool is_over = record.is_over();
  int woken = 0;
  for (const BatchRecord::Waiter& waiter : record.waiters) {
    const bool is_due = is_over || rows > waiter.row;
    if (!is_due || waiter.who->is_told) continue;
    if (woken == kAtOnce) {
      if (std::exchange(record.is_waking, true)) return;
      asio::post(io_, [this, held = std::static_pointer_cast<BatchRecord>(record.shared_from_this())] {
        held->is_waking = false;
        wake_waiters(*held, held->status().rows);
      });
      return;
    }
    waiter.who->is_told = true;
    waiter.who->wakeup.wake();
    ++woken;
  }
}

// A stream may be larger than the memory for what is queued: what has ended makes room for what comes. All at
// once, when nothing is left to do, which it comes to before a client waits in vain.
void Batches::free_payloads(BatchRecord& record, const BatchStatus& status) {
  constexpr std::uint64_t kWorthIt = 1U << 20;
  if (record.origin != BatchRecord::Origin::kOpen || status.queued + status.running != 0) return;
  registry_.count_payloads(record, 0);
  auto& payloads = static_cast<StreamedPayloads&>(record.payloads());
  if (payloads.memory_bytes() < kWorthIt) return;
  payloads.keep_only(record.failed_jobs());
  registry_.count(record, 0, payloads.memory_bytes());
}

void Batches::schedule_retry(BatchRecord& record, const BatchStatus& status) {
  const Instant due = status.retry_at.count() == 0 ? kNever : Instant(status.retry_at);
  if (due != record.retry_at) registry_.schedule(record, Due::kRetry, due);
}

void Batches::tell_subscribers(BatchRecord& record, const BatchStatus& status, Instant at) {
  const bool over = status.finished_at != 0;
  if (status.started_at != 0 && !std::exchange(record.started_told, true)) {
    events_.publish(record, EventKind::kStarted, status);
    record.progress_told = at;
  }
  if (over) {
    events_.publish(record, status.state == BatchState::done ? EventKind::kDone : EventKind::kCancelled,
                    status);
  } else if (record.started_told && record.progress_at == kNever && events_.has_listener(record)) {
    // Told when it is due, as it stands then: so that the last of a burst of changes is not the one that is
    // left out.
    registry_.schedule(record, Due::kProgress, std::max(at, record.progress_told + kProgressPeriod));
  }
}

void Batches::ended(BatchRecord& record, const BatchStatus& status) {
  const bool done = status.state == BatchState::done;
  if (!record.is_rejected) {
    stats_.count_batch(record.handler().name(), done ? BatchEvent::kDone : BatchEvent::kCancelled);
  }
  release_dependents(record, status);
  if (record.origin == BatchRecord::Origin::kRun) {
    --runs_;
    return;
  }
  if (record.origin == BatchRecord::Origin::kOpen) {
    streams_[record.opener].erase(record.sequence);
    if (streams_[record.opener].empty()) streams_.erase(record.opener);
  }
  release_payloads(record, status);
  if (!record.is_rejected) log_end(record, status);
}

void Batches::log_end(const BatchRecord& record, const BatchStatus& status) {
  if (!log_->should_log(spdlog::level::info)) return;
  // Many that went well do not hide one that did not.
  RateGate& gate = status.ok == status.jobs ? done_lines_ : failed_lines_;
  if (!gate.open(now())) return;
  LogLine line(status.state == BatchState::done ? "batch done" : "batch cancelled");
  line.about(record).with("name", record.options().name).with("jobs", status.jobs).with("ok", status.ok);
  line.with("failed", status.failed).with("cancelled", status.cancelled);
  if (!record.stop_reason.empty()) line.with("reason", record.stop_reason);
  line.with("took_ms", status.finished_at - status.submitted_at).with("unlogged", gate.held_back());
  line.write(*log_, spdlog::level::info);
}

std::uint64_t Batches::cancel(BatchRecord& record, std::string reason) {
  LogLine("batch is told to stop").about(record).with("reason", reason).write(*log_, spdlog::level::debug);
  record.stop_reason = reason;
  const std::uint64_t count = record.lane->cancel(record, std::move(reason));
  write_changes(record);
  return count;
}

void Batches::release_payloads(BatchRecord& record, const BatchStatus& status) {
  const bool may_go_on = status.failed != 0 && status.state == BatchState::done && !record.is_rejected;
  const auto stored = [&] {
    return may_go_on && record.is_stored() ? store_->payloads(record.sequence) : nullptr;
  };
  if (may_go_on && !record.is_stored()) {
    registry_.count(record, 0, record.payloads().memory_bytes());
  } else if (record.origin == BatchRecord::Origin::kOpen) {
    auto& payloads = static_cast<StreamedPayloads&>(record.payloads());
    may_go_on ? payloads.leave_to_store() : payloads.release();
  } else {
    auto payloads = record.content.received != nullptr ? record.content.received->payloads() : nullptr;
    record.content.release(record.id_is_chosen, stored());
    if (payloads != nullptr && payloads->memory_bytes() > kLargeBytes) {
      aside_.post([payloads = std::move(payloads)] {});
    }
  }
}

std::expected<std::uint64_t, Batches::Refusal> Batches::retry(BatchRecord& record) {
  if (draining_)
    return std::unexpected(Refusal("DRAINING the daemon is shutting down: no job was queued again"));
  // It may be over for less time than this thread has taken to hear of it.
  if (record.is_over()) hear_of(record);
  const std::uint64_t failed = record.status().failed;
  const std::uint64_t most = config_.limits.max_queued_jobs;
  if (failed > most - std::min(most, registry_.queued_jobs())) {
    return std::unexpected(
        fmt::format("QUEUEFULL limits.max_queued_jobs is {}, {} are queued, and {} would be more: try again",
                    most, registry_.queued_jobs(), failed));
  }
  if (failed != 0) {
    if (auto within = check_quotas({.tenant = registry_.tenant_of(record),
                                    .handler = record.handler().name(),
                                    .new_batches = record.is_active ? 0U : 1U,
                                    .batch_jobs = 0,
                                    .new_jobs = failed,
                                    .payloads = nullptr,
                                    .is_stored = record.is_stored()});
        !within) {
      return std::unexpected(std::move(within.error()));
    }
  }
  const auto shared = std::static_pointer_cast<BatchRecord>(record.shared_from_this());
  if (!record.is_active) follow_handler(record);
  const std::uint64_t count = record.lane->retry_failed(shared);
  if (count == 0) return 0;
  LogLine("failed jobs queued again").about(record).with("jobs", count).write(*log_, spdlog::level::debug);
  if (!record.is_active) {
    record.has_no_deadline = true;
    retained_.erase(record.sequence);
    const BatchStatus status = record.status();
    if (const auto retired = registry_.go_on(shared, status)) {
      stored_bytes_ -= retired->stored_bytes;
      record.stored_parts = retired->parts;
      count_stored(record, status.result_bytes);
    }
    arm_timer();
  }
  write_changes(record);
  return count;
}

void Batches::set_weight(BatchRecord& record, std::uint32_t weight) {
  record.lane->set_weight(record, weight);
  write_changes(record);
}

void Batches::pause(BatchRecord& record) {
  record.lane->pause(record);
  write_changes(record);
}

void Batches::resume(BatchRecord& record) {
  record.lane->resume(record);
  write_changes(record);
}

void Batches::connection_gone(std::uint64_t connection) {
  const auto found = streams_.find(connection);
  if (found == streams_.end()) return;
  const auto abandoned = std::move(found->second);
  streams_.erase(found);
  for (const std::uint64_t sequence : abandoned) {
    BatchRecord* record = registry_.by_sequence(sequence);
    if (record == nullptr) continue;
    record->opener = 0;
    streams_[0].insert(sequence);
    registry_.schedule(*record, Due::kClose, now() + config_.limits.open_timeout);
  }
  arm_timer();
}

void Batches::arm_timer() {
  const Instant next = next_due();
  if (next == armed_for_) return;
  armed_for_ = next;
  if (next == kNever) {
    due_timer_.cancel();
    return;
  }
  due_timer_.expires_at(next);
  due_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) take_due();
  });
}

Instant Batches::next_due() {
  const RetainedBatch* going = registry_.retained().next_to_go();
  const Instant next = registry_.due().empty() ? kNever : registry_.due().next().at;
  return going == nullptr ? next : std::min(next, going->forget_at);
}

void Batches::take_due() {
  const Instant at = now();
  // So much at a time, that the connections are not kept waiting when a million batches are to be forgotten
  // at once.
  constexpr int kMost = 1000;
  int taken = 0;
  for (; taken < kMost; ++taken) {
    const RetainedBatch* going = registry_.retained().next_to_go();
    if (going == nullptr || going->forget_at > at) break;
    forget_retained(going->sequence, Urgency::kWithNext);
  }
  for (; taken < kMost && !registry_.due().empty() && registry_.due().next().at <= at; ++taken) {
    const DueQueue::Item item = registry_.due().next();
    BatchRecord& record = *registry_.by_sequence(item.sequence);
    registry_.schedule(record, item.kind, kNever);
    switch (item.kind) {
      case Due::kDeadline:
        cancel(record, "deadline passed");
        break;
      case Due::kClose:
        if (record.status().state != BatchState::open) break;
        if (closed_lines_.open(std::chrono::steady_clock::now())) {
          LogLine("open batch closed: its connection has gone, and limits.open_timeout passed")
              .about(record)
              .with("unlogged", closed_lines_.held_back())
              .write(*log_, spdlog::level::info);
        }
        close(record);
        break;
      case Due::kForget:
        forget(record, Urgency::kWithNext);
        break;
      case Due::kRetry:
        record.lane->retry_due(std::static_pointer_cast<BatchRecord>(record.shared_from_this()));
        schedule_retry(record, record.status());
        break;
      case Due::kStart:
        record.lane->release(record, Hold::delay);
        break;
      case Due::kProgress:
        record.progress_told = at;
        events_.publish(record, EventKind::kProgress, record.status());
        break;
    }
  }
  armed_for_ = kNever;
  arm_timer();
}

void Batches::drain(std::function<void()> on_idle) {
  draining_ = true;
  on_idle_ = std::move(on_idle);
  const auto streams = std::move(streams_);
  streams_.clear();
  for (const auto& [connection, sequences] : streams) {
    for (const std::uint64_t sequence : sequences) {
      BatchRecord& record = *registry_.by_sequence(sequence);
      record.opener = 0;
      streams_[0].insert(sequence);
      if (!record.is_stored()) record.lane->close(record);
    }
  }
  look_whether_idle();
}

void Batches::look_whether_idle() {
  if (!draining_ || !on_idle_ || !unsettled_.empty() || runs_ != 0) return;
  // What is in the store and open, or held by something, or waits to be tried again, goes on being so after a
  // restart.
  const bool is_idle = registry_.all_active([](const BatchRecord& record) {
    if (!record.is_stored()) return false;
    const BatchStatus status = record.status();
    if (status.running != 0) return false;
    if (status.holds != 0) return true;
    return status.queued == status.waiting && (status.waiting != 0 || status.state == BatchState::open);
  });
  if (is_idle) std::exchange(on_idle_, nullptr)();
}

}  // namespace locksley::daemon
