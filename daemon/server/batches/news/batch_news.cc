#include "daemon/server/batches/news/batch_news.h"

#include <spdlog/logger.h>

#include <utility>

#include "core/batch/batch_failures.h"
#include "core/batch/handler.h"
#include "daemon/base/log/log_line.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {
constexpr auto kProgressPeriod = std::chrono::milliseconds(250);  // at most 4 a second, as the interface says
}  // namespace

BatchNews::BatchNews(Parts parts)
    : parts_(std::move(parts)), applying_(parts_.slices), changes_timer_(parts_.io) {}

void BatchNews::apply_queued(Forget forget) {
  if (!apply_until(now() + Slices::kSlice, forget)) {
    applying_.start([this](Instant until) {
      kIoThread.assert_held();
      const bool is_done = apply_until(until, Forget::kNow);
      parts_.timer.arm();
      parts_.after_changes();
      return is_done;
    });
  }
  parts_.timer.arm();
}

bool BatchNews::apply_until(Instant until, Forget forget) {
  ChangeQueue::Taken taken;
  do {
    using enum ChangeQueue::NextTake;
    taken = parts_.changes.take(changes_timer_armed_ ? kScheduled : kOnWake);
    const Instant at = now();
    for (const auto& record : taken.records) {
      apply(*record, record->status(), at);
      if (forget == Forget::kNow && record->due.forget <= at && record->waiters.all.empty()) {
        parts_.timer.take(*record, Due::kForget);
      }
    }
    if (taken.must_call_again && !changes_timer_armed_) {
      changes_timer_armed_ = true;
      changes_timer_.expires_after(ChangeQueue::kHoldOff);
      changes_timer_.async_wait([this](const asio::error_code& stopped) {
        kIoThread.assert_held();
        if (stopped) return;
        changes_timer_armed_ = false;
        take_changes();
      });
    }
  } while (taken.has_more && now() < until);
  return !taken.has_more;
}

void BatchNews::apply_pending() { apply_queued(Forget::kLater); }

void BatchNews::take_changes() {
  apply_queued(Forget::kNow);
  parts_.after_changes();
}

BatchStatus BatchNews::shown_status(BatchRecord& record) {
  const BatchStatus status = record.status();
  if (record.is_active) {
    apply(record, status);
    parts_.timer.arm();
  }
  return status;
}

void BatchNews::apply(BatchRecord& record, const BatchStatus& status, Instant at) {
  const bool is_over = status.finished_at != 0;
  if (record.is_stored() && record.is_active) {
    const bool frees_payloads = status.failed == 0 && record.stored.parts != PayloadParts::kInRow;
    if (is_over && frees_payloads) record.stored.payload_bytes = 0;
    parts_.retention.update(record, status.result_bytes);
    // The batch's last step was put before its status changed.
    if (is_over) record.stored.end_ticket = parts_.store->last_put();
  }
  if (record.is_active && record.origin != BatchRecord::Origin::kRun) publish(record, status, at);
  const Account& own = parts_.registry.tenant_of(record).account;
  const bool had_jobs = own.used(Resource::kQueuedJobs) != 0;
  if (parts_.registry.update(record, status, at)) batch_ended(record, status);
  if (had_jobs && own.used(Resource::kQueuedJobs) == 0) parts_.retention.jobs_ended();
  if (record.is_active) {
    schedule_retry(record, status);
    free_streamed_payloads(record, status);
  }
  record.wake_for_news(status.rows, parts_.slices);
}

void BatchNews::publish(BatchRecord& record, const BatchStatus& status, Instant at) {
  const bool is_over = status.finished_at != 0;
  if (status.started_at != 0) {
    const bool has_work = !status.paused && status.queued + status.running != 0;
    record.rate.update(at, status.ok + status.failed,
                       has_work ? RateMeter::Work::kSome : RateMeter::Work::kNone);
  }
  if (status.started_at != 0) parts_.events.publish_started(record, status, at);
  if (is_over) {
    parts_.events.publish_end(record, status);
  } else if (record.published.started && record.due.progress == kNever &&
             parts_.events.has_listener(record)) {
    // The event is published later, with the state that the batch has then: so the last change of a
    // burst is never left out.
    parts_.registry.schedule(record, Due::kProgress,
                             std::max(at, record.published.progress + kProgressPeriod));
  }
}

void BatchNews::publish_progress(BatchRecord& record) {
  record.published.progress = now();
  parts_.events.publish(record, EventKind::kProgress, record.status());
}

void BatchNews::batch_ended(BatchRecord& record, const BatchStatus& status) {
  const bool is_done = status.state == BatchState::kDone;
  const bool is_rejected = record.stored.is_rejected;
  if (!is_rejected) {
    parts_.stats.count_batch(record.handler().name(), is_done ? BatchEvent::kDone : BatchEvent::kCancelled);
  }
  parts_.dependencies.batch_ended(record, status);
  if (record.origin == BatchRecord::Origin::kRun) return;
  if (record.origin == BatchRecord::Origin::kOpen) parts_.streams.remove(record);
  release_payloads(record, status);
  parts_.retention.add(record);
  if (!is_rejected) log_end(record, status);
}

void BatchNews::release_payloads(BatchRecord& record, const BatchStatus& status) {
  using FailedJobs = BatchPayloads::FailedJobs;
  using Repetition = BatchPayloads::Repetition;
  const bool may_run_again =
      status.failed != 0 && status.state == BatchState::kDone && !record.stored.is_rejected;
  BatchPayloads::Released released =
      record.payloads().release(may_run_again ? FailedJobs::kMayRunAgain : FailedJobs::kNeverRunAgain,
                                record.terms.id_is_chosen ? Repetition::kPossible : Repetition::kImpossible);
  if (released.kept_bytes != 0) parts_.registry.charges().add_jobs_set_memory(record, 0, released.kept_bytes);
  free_aside(parts_.aside, std::move(released.freed), released.freed_bytes,
             parts_.registry.tenant_of(record).number);
}

// A stream may be larger than the memory for queued payloads: jobs that have ended make room for
// jobs to come. The payloads are freed all at once, when no job is left to run. A stream reaches
// that state before its client would have to wait.
void BatchNews::free_streamed_payloads(BatchRecord& record, const BatchStatus& status) {
  constexpr std::uint64_t kWorthIt = 1U << 20;  // a guess: freeing less than this is not worth the work
  if (record.origin != BatchRecord::Origin::kOpen || status.queued + status.running != 0) return;
  parts_.registry.charges().count_payloads(record, 0);
  BatchPayloads& payloads = record.payloads();
  if (payloads.memory_bytes() < kWorthIt) return;
  // If nearly every segment has a failed job, all segments stay.
  BatchPayloads::Released released = payloads.keep_only(record.failures().jobs());
  free_aside(parts_.aside, std::move(released.freed), released.freed_bytes,
             parts_.registry.tenant_of(record).number);
  parts_.registry.charges().add_jobs_set_memory(record, 0, payloads.memory_bytes());
}

void BatchNews::schedule_retry(BatchRecord& record, const BatchStatus& status) {
  if (status.retry_at != record.due.retry) parts_.registry.schedule(record, Due::kRetry, status.retry_at);
}

void BatchNews::log_end(const BatchRecord& record, const BatchStatus& status) {
  if (!parts_.log->should_log(spdlog::level::info)) return;
  RateGate& gate = status.ok == status.jobs ? done_lines_ : failed_lines_;
  if (!gate.open(now())) return;
  LogLine line(status.state == BatchState::kDone ? "batch done" : "batch cancelled");
  line.about(record).with("name", record.options().name).with("jobs", status.jobs).with("ok", status.ok);
  line.with("failed", status.failed).with("cancelled", status.cancelled);
  if (!record.terms.stop_reason.empty()) line.with("reason", record.terms.stop_reason);
  line.with("took_ms", status.finished_at - status.submitted_at).with("unlogged", gate.held_back());
  line.write(*parts_.log, spdlog::level::info);
}

}  // namespace locksley::daemon
