#include "core/batch/batch.h"

#include <algorithm>
#include <utility>

#include "core/base/index_ranges.h"
#include "core/batch/handler.h"

namespace locksley {

std::string_view to_string(BatchState state) {
  switch (state) {
    case BatchState::kOpen:
      return "open";
    case BatchState::kQueued:
      return "queued";
    case BatchState::kRunning:
      return "running";
    case BatchState::kDone:
      return "done";
    case BatchState::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Batch::Batch(BatchOptions options, Handler& handler, std::unique_ptr<PayloadSource> payloads,
             BatchObserver* observer, std::unique_ptr<BatchJournal> journal)
    : options_(std::move(options)),
      handler_(handler),
      payloads_(std::move(payloads)),
      observer_(observer),
      journal_(std::move(journal)),
      result_charge_(options_.results),
      failure_charge_(options_.failures),
      weight_(options_.weight),
      slots_(options_.slots),
      submitted_at_(unix_milliseconds()) {}

BatchStatus Batch::status() const {
  const MutexLock lock(mutex_);
  BatchStatus result{};
  result.jobs = jobs_;
  result.ok = ended_.count(JobStatus::kOk);
  result.cancelled = ended_.count(JobStatus::kCancelled);
  // Jobs that are about to be queued again count as queued.
  const FailedJobs::Requeue* const requeue = failed_.requeue();
  const std::uint64_t requeued = failed_.requeued();
  result.failed = ended_.failed() - requeued;
  const std::uint64_t ended = ended_.total() - requeued;
  result.waiting = next_attempts_.waiting();
  result.retry_at = next_attempts_.next_due();
  result.running = std::min(executors_, jobs_ - ended - result.waiting);
  result.retried = retried_ + requeued;
  result.superseded = requeue != nullptr ? requeue->superseded : failed_.superseded();
  result.retry_rounds = retry_rounds_ + (requeue != nullptr ? 1U : 0U);
  result.queued = jobs_ - ended - result.running;
  result.submitted_at = submitted_at_;
  result.started_at = started_at_;
  result.finished_at = finished_at_;
  result.weight = weight_;
  result.slots = slots_;
  // [batch-hold] relaxed: written under the mutex that is held.
  result.holds = holds_.load(std::memory_order_relaxed);
  result.paused = has(result.holds, Hold::kCommand);
  result.rows = log_.rows();
  result.discarded = log_.discarded();
  result.discarded_bytes = log_.discarded_bytes();
  result.result_bytes = log_.appended_bytes() - log_.discarded_bytes();
  result.steps = steps_;
  // [batch-over] relaxed: written under the mutex that is held.
  if (over_.load(std::memory_order_relaxed)) {
    result.state = cancelled_ ? BatchState::kCancelled : BatchState::kDone;
  } else if (!closed_) {
    result.state = BatchState::kOpen;
  } else {
    result.state = started_at_ != 0 ? BatchState::kRunning : BatchState::kQueued;
  }
  return result;
}

std::int64_t Batch::submitted_at() const {
  const MutexLock lock(mutex_);
  return submitted_at_;
}

void Batch::refund_results() {
  const MutexLock lock(mutex_);
  is_charged_ = false;
  result_charge_.set(0);
  failure_charge_.set(0);
}

void Batch::charge_results() {
  if (!is_charged_) return;
  result_charge_.set(log_.memory_bytes());
  failure_charge_.set(failure_bytes());
}

void Batch::restore(const BatchHistory& history) {
  const MutexLock lock(mutex_);
  jobs_ = history.jobs;
  ended_ = history.totals;
  steps_ = history.steps;
  closed_ = history.closed;
  cancelled_ = history.cancelled;
  stop_reason_ = history.stop_reason;
  weight_ = history.weight;
  if (history.slots) slots_ = *history.slots;
  submitted_at_ = history.submitted_at;
  started_at_ = history.started_at;
  finished_at_ = history.finished_at;
  attempt_ = history.attempt;
  retried_ = history.retried;
  SupersededRows superseded;
  superseded.below = history.superseded;
  if (!history.superseded_jobs.empty()) {
    superseded.jobs = std::make_shared<const SupersededList>(history.superseded_jobs);
  }
  if (history.failed_unread) {
    failed_.restore_unread(ended_.failed(), std::move(superseded));
  } else {
    failed_.restore(history.failed, std::move(superseded));
  }
  retry_rounds_ = history.retry_rounds;
  next_attempts_.restore(history.job_attempts, history.notes, history.earlier_failures);
  log_.begin_at(history.rows, history.result_bytes, history.discarded, history.discarded_bytes);
  // [batch-stop] relaxed: no other thread has the batch yet.
  stopping_.store(cancelled_, std::memory_order_relaxed);
  // [batch-hold] relaxed: no other thread has the batch yet.
  holds_.store(history.paused ? static_cast<Holds>(Hold::kCommand) : 0, std::memory_order_relaxed);
  // [batch-over] relaxed: no other thread has the batch yet.
  over_.store(finished_at_ != 0, std::memory_order_relaxed);
  is_charged_ = finished_at_ == 0;
  charge_results();
  // The journal has the attempts of all failed jobs.
  if (!is_charged_ || !next_attempts_.has_counts() || !is_at_failure_limit()) return;
  next_attempts_.forget_counts(failed_.all());
  charge_results();
}

std::uint64_t Batch::failure_bytes() const {
  // [batch-over] relaxed: written under the mutex that is held. Once it is over, the queue leaves
  // the ring, and frees its ranges.
  const bool is_over = over_.load(std::memory_order_relaxed);
  return failed_.memory_bytes() + next_attempts_.memory_bytes() + (is_over ? 0 : ring_queue_.memory_bytes());
}

std::uint64_t Batch::memory_bytes() const {
  const std::uint64_t payload_bytes = payloads_->memory_bytes();
  const MutexLock lock(mutex_);
  return sizeof(*this) + payload_bytes + log_.memory_bytes() + failure_bytes();
}

std::optional<std::uint64_t> Batch::jobs_added(std::uint64_t count) {
  const MutexLock lock(mutex_);
  if (closed_) return std::nullopt;
  return std::exchange(jobs_, jobs_ + count);
}

void Batch::close() {
  bool over = false;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    over = finish_and_record();
  }
  if (over) notify_observer();
}

void Batch::jobs_withdrawn(std::uint64_t count) {
  bool over = false;
  {
    const MutexLock lock(mutex_);
    jobs_ -= count;
    over = finish_and_record();
  }
  if (over) notify_observer();
}

void Batch::set_weight(std::uint32_t weight) {
  const MutexLock lock(mutex_);
  weight_ = weight;
}

void Batch::set_slots(std::uint32_t slots) {
  const MutexLock lock(mutex_);
  slots_ = slots;
}

void Batch::set_gate(GateId gate) {
  const MutexLock lock(mutex_);
  gate_ = gate;
}

Batch::ServedAs Batch::served_as() const {
  const MutexLock lock(mutex_);
  return {.weight = weight_, .slots = slots_, .gate = gate_};
}

void Batch::set_hold(Hold hold) {
  const MutexLock lock(mutex_);
  // [batch-hold] relaxed: as in holds().
  holds_.fetch_or(static_cast<Holds>(hold), std::memory_order_relaxed);
}

void Batch::clear_hold(Hold hold) {
  bool over = false;
  {
    const MutexLock lock(mutex_);
    // [batch-hold] relaxed: as in holds().
    holds_.fetch_and(static_cast<Holds>(~static_cast<Holds>(hold)), std::memory_order_relaxed);
    over = finish_and_record();
  }
  if (over) notify_observer();
}

std::uint64_t Batch::stop(std::string reason, RunningJobs running) {
  const MutexLock lock(mutex_);
  // [batch-over] relaxed: written under the mutex that is held.
  if (over_.load(std::memory_order_relaxed)) return 0;
  // [batch-abort] relaxed: as in is_aborting().
  if (running == RunningJobs::kStop) aborting_.store(true, std::memory_order_relaxed);
  if (cancelled_) return 0;
  stop_reason_ = std::move(reason);
  cancelled_ = true;
  // [batch-stop] relaxed: as in is_stopping().
  stopping_.store(true, std::memory_order_relaxed);
  // [batch-hold] relaxed: as in holds().
  holds_.store(0, std::memory_order_relaxed);
  const std::uint64_t left = jobs_ - (ended_.total() - failed_.requeued());
  // An executor whose jobs have all ended may have yet to leave.
  return left - std::min(executors_, left - next_attempts_.waiting());
}

void Batch::jobs_dropped(std::span<const IndexRange> ranges) {
  do {
    const auto some = ranges.first(std::min(kDroppedAtOnce, ranges.size()));
    ranges = ranges.subspan(some.size());
    drop(some);
  } while (!ranges.empty());
}

void Batch::drop(std::span<const IndexRange> ranges) {
  bool over = false;
  {
    const MutexLock lock(mutex_);
    if (!ranges.empty()) {
      const std::uint64_t count = count_of(ranges);
      ended_.by_status[static_cast<std::size_t>(JobStatus::kCancelled)] += count;
      handler_.stats.add_jobs(JobStatus::kCancelled, count);
      ResultLog::Rows rows;
      if (options_.keep != Keep::kNone) {
        rows = log_.append_runs(ranges, JobStatus::kCancelled, stop_reason_);
      }
      over = finish_if_over();
      BatchStep step;
      step.ended.assign(ranges.begin(), ranges.end());
      record(std::move(step), std::move(rows));
      charge_results();
      if (over) announce_end();
    } else {
      over = finish_and_record();
    }
  }
  if (over || !ranges.empty()) notify_observer();
}

void Batch::executor_joined(std::uint32_t executors) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    executors_ += executors;
    if (started_at_ == 0) {
      first = true;
      started_at_ = std::max(unix_milliseconds(), submitted_at_);
      handler_.stats.batch_wait.observe(std::chrono::milliseconds(started_at_ - submitted_at_));
    }
  }
  if (first) notify_observer();
}

void Batch::executor_left(std::uint32_t executors) {
  const MutexLock lock(mutex_);
  executors_ -= executors;
}

void Batch::report_throw(std::uint64_t index, std::string_view what) {
  if (observer_ != nullptr) observer_->handler_threw(*this, index, what);
}

bool Batch::finish_if_over() {
  // [batch-over] relaxed: written under the mutex that is held.
  if (!closed_ || ended_.total() != jobs_ || over_.load(std::memory_order_relaxed)) return false;
  if (failed_.requeue() != nullptr) return false;
  // [batch-hold] relaxed: written under the mutex that is held.
  const Holds holds = holds_.load(std::memory_order_relaxed);
  if (has(holds, Hold::kDelay) || has(holds, Hold::kBatches)) return false;
  finished_at_ = std::max(unix_milliseconds(), std::max(started_at_, submitted_at_));
  handler_.stats.batch_duration.observe(std::chrono::milliseconds(finished_at_ - submitted_at_));
  return true;
}

void Batch::announce_end() {
  // [batch-over] release: counters and results are complete, and the journal has its last step;
  // pairs with the acquire in is_over().
  over_.store(true, std::memory_order_release);
  if (ring_queue_.memory_bytes() != 0) [[unlikely]]
    charge_results();
}

bool Batch::finish_and_record() {
  if (!finish_if_over()) return false;
  record({}, {});
  announce_end();
  return true;
}

void Batch::record(BatchStep step, ResultLog::Rows rows) {
  if (journal_ == nullptr) return;
  step.number = steps_++;
  step.rows = std::move(rows);
  step.batch = weak_from_this();
  step.totals = ended_;
  step.row_count = log_.rows();
  step.result_bytes = log_.appended_bytes();
  step.started_at = started_at_;
  step.finished_at = finished_at_;
  step.cancelled = cancelled_;
  if (cancelled_) step.stop_reason = stop_reason_;
  step.retried = retried_;
  step.superseded = failed_.superseded().below;
  step.retry_rounds = retry_rounds_;
  // The journal drops the steps before the last one, which therefore has all that may be read
  // later.
  if (finished_at_ != 0 && !cancelled_) list_failed(step);
  if (const auto& jobs = failed_.superseded().jobs; finished_at_ != 0 && jobs != nullptr) {
    step.superseded_jobs = *jobs;
  }
  if (next_attempts_.has_notes() && (finished_at_ != 0 || step.is_base)) {
    // The notes of jobs that may run again.
    const bool are_none = !step.is_base && (cancelled_ || failed_.count() == 0);
    step.notes = are_none ? std::vector<NotedJob>() : next_attempts_.notes();
  }
  journal_->record(std::move(step));
}

void Batch::list_failed(BatchStep& step) {
  constexpr std::size_t kFewRanges = 1024;  // a guess
  if (failed_.list().size() <= kFewRanges) {
    step.failed = failed_.all();
  } else {
    step.all_failed = failed_.share();
  }
}

void Batch::notify_observer() {
  if (observer_ != nullptr) observer_->batch_changed(shared_from_this());
}

}  // namespace locksley
