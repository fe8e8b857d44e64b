#include "core/batch.h"

#include <algorithm>
#include <utility>

#include "core/handler.h"

namespace locksley {

std::string_view to_string(BatchState state) {
  switch (state) {
    case BatchState::open:
      return "open";
    case BatchState::queued:
      return "queued";
    case BatchState::running:
      return "running";
    case BatchState::done:
      return "done";
    case BatchState::cancelled:
      return "cancelled";
  }
  return "unknown";
}

std::uint64_t EndedJobs::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : by_status) sum += count;
  return sum;
}

Batch::Batch(BatchOptions options, Handler& handler, std::unique_ptr<PayloadSource> payloads,
             BatchObserver* observer, std::unique_ptr<BatchJournal> journal)
    : options_(std::move(options)),
      handler_(handler),
      payloads_(std::move(payloads)),
      observer_(observer),
      journal_(std::move(journal)),
      weight_(options_.weight),
      submitted_at_(unix_milliseconds()) {}

BatchStatus Batch::status() const {
  const std::lock_guard lock(mutex_);
  BatchStatus result{};
  result.jobs = jobs_;
  result.ok = ended_.count(JobStatus::ok);
  result.cancelled = ended_.count(JobStatus::cancelled);
  result.failed = ended_.failed();
  const std::uint64_t ended = ended_.total();
  result.running = std::min(executors_, jobs_ - ended);
  result.queued = jobs_ - ended - result.running;
  result.submitted_at = submitted_at_;
  result.started_at = started_at_;
  result.finished_at = finished_at_;
  result.weight = weight_;
  // [batch-hold] relaxed: written under the mutex that is held.
  result.holds = holds_.load(std::memory_order_relaxed);
  result.paused = has(result.holds, Hold::command);
  result.rows = log_.rows();
  result.result_bytes = log_.appended_bytes();
  result.steps = steps_;
  // [batch-over] relaxed: written under the mutex that is held.
  if (over_.load(std::memory_order_relaxed)) {
    result.state = cancelled_ ? BatchState::cancelled : BatchState::done;
  } else if (!closed_) {
    result.state = BatchState::open;
  } else {
    result.state = started_at_ != 0 ? BatchState::running : BatchState::queued;
  }
  return result;
}

std::uint64_t Batch::read_results(std::uint64_t first, std::uint64_t max_rows,
                                  const std::function<bool(const ResultRow&)>& visit) const {
  std::vector<ResultLog::Piece> pieces;
  std::uint64_t elsewhere = 0;  // rows that are not in memory
  {
    const std::lock_guard lock(mutex_);
    elsewhere = std::min(max_rows, log_.first_row() - std::min(first, log_.first_row()));
    pieces = log_.snapshot(first + elsewhere, max_rows - elsewhere);
  }
  const std::uint64_t read = elsewhere != 0 ? journal_->read_rows(first, elsewhere, visit) : 0;
  if (read < elsewhere) return read;
  return read + ResultLog::visit(pieces, first + read, max_rows - read, visit);
}

std::optional<std::vector<ResultLog::Piece>> Batch::results_in_memory(std::uint64_t first,
                                                                      std::uint64_t max_rows) const {
  const std::lock_guard lock(mutex_);
  if (max_rows != 0 && first < log_.first_row()) return std::nullopt;
  return log_.snapshot(first, max_rows);
}

void Batch::drop_rows_before(std::uint64_t row) {
  const std::lock_guard lock(mutex_);
  log_.drop_before(row);
}

void Batch::restore(const BatchHistory& history) {
  const std::lock_guard lock(mutex_);
  jobs_ = history.jobs;
  ended_ = history.totals;
  steps_ = history.steps;
  closed_ = history.closed;
  cancelled_ = history.cancelled;
  stop_reason_ = history.stop_reason;
  weight_ = history.weight;
  submitted_at_ = history.submitted_at;
  started_at_ = history.started_at;
  finished_at_ = history.finished_at;
  attempt_ = history.attempt;
  log_.begin_at(history.rows, history.result_bytes);
  // [batch-stop] relaxed: nobody else has the batch yet.
  stopping_.store(cancelled_, std::memory_order_relaxed);
  // [batch-hold] relaxed: nobody else has the batch yet.
  holds_.store(history.paused ? static_cast<Holds>(Hold::command) : 0, std::memory_order_relaxed);
  // [batch-over] relaxed: nobody else has the batch yet.
  over_.store(finished_at_ != 0, std::memory_order_relaxed);
}

std::uint64_t Batch::memory_bytes() const {
  const std::uint64_t payload_bytes = payloads_->memory_bytes();
  const std::lock_guard lock(mutex_);
  return sizeof(*this) + payload_bytes + log_.memory_bytes();
}

std::optional<std::uint64_t> Batch::jobs_added(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  if (closed_) return std::nullopt;
  return std::exchange(jobs_, jobs_ + count);
}

void Batch::close() {
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    over = finish_and_record();
  }
  if (over) tell();
}

void Batch::jobs_withdrawn(std::uint64_t count) {
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    jobs_ -= count;
    over = finish_and_record();
  }
  if (over) tell();
}

void Batch::set_weight(std::uint32_t weight) {
  const std::lock_guard lock(mutex_);
  weight_ = weight;
}

void Batch::set_hold(Hold hold) {
  const std::lock_guard lock(mutex_);
  // [batch-hold] relaxed: as in is_held().
  holds_.fetch_or(static_cast<Holds>(hold), std::memory_order_relaxed);
}

void Batch::clear_hold(Hold hold) {
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    // [batch-hold] relaxed: as in is_held().
    holds_.fetch_and(static_cast<Holds>(~static_cast<Holds>(hold)), std::memory_order_relaxed);
    over = finish_and_record();
  }
  if (over) tell();
}

std::uint64_t Batch::stop(std::string reason) {
  const std::lock_guard lock(mutex_);
  // [batch-over] relaxed: written under the mutex that is held.
  if (over_.load(std::memory_order_relaxed)) return 0;
  if (cancelled_) return 0;
  stop_reason_ = std::move(reason);
  cancelled_ = true;
  // [batch-stop] relaxed: as in is_stopping().
  stopping_.store(true, std::memory_order_relaxed);
  // [batch-hold] relaxed: as in is_held().
  holds_.store(0, std::memory_order_relaxed);
  const std::uint64_t left = jobs_ - ended_.total();
  return left - std::min(executors_, left);
}

void Batch::jobs_dropped(std::span<const IndexRange> ranges) {
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    for (const IndexRange& range : ranges) {
      ended_.by_status[static_cast<std::size_t>(JobStatus::cancelled)] += range.size();
      handler_.stats.add_jobs(JobStatus::cancelled, range.size());
      ResultLog::Slice rows;
      if (options_.keep != Keep::none) {
        rows = log_.append_run(range.low, range.size(), JobStatus::cancelled, stop_reason_);
      }
      if (&range == &ranges.back()) over = finish_if_over();
      record({range}, std::move(rows));
    }
    if (ranges.empty()) over = finish_and_record();
  }
  if (over || !ranges.empty()) tell();
}

void Batch::executor_joined() {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    ++executors_;
    if (started_at_ == 0) {
      first = true;
      started_at_ = std::max(unix_milliseconds(), submitted_at_);
      handler_.stats.batch_wait.observe(std::chrono::milliseconds(started_at_ - submitted_at_));
    }
  }
  if (first) tell();
}

void Batch::executor_left() {
  const std::lock_guard lock(mutex_);
  --executors_;
}

bool Batch::publish(const EndedJobs& ended, std::span<const std::byte> rows, std::uint64_t row_count,
                    std::vector<IndexRange> indexes) {
  bool too_many_failures = false;
  {
    auto prepared = ResultLog::prepare(rows, row_count);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < kJobStatuses; ++i) {
      ended_.by_status[i] += ended.by_status[i];
      if (ended.by_status[i] != 0) handler_.stats.add_jobs(static_cast<JobStatus>(i), ended.by_status[i]);
    }
    ResultLog::Slice slice = log_.append(std::move(prepared));
    if (options_.max_fails != 0 && !cancelled_) too_many_failures = ended_.failed() >= options_.max_fails;
    finish_if_over();
    record(std::move(indexes), std::move(slice));
  }
  tell();
  return too_many_failures;
}

void Batch::report_throw(std::uint64_t index, std::string_view what) {
  if (observer_ != nullptr) observer_->handler_threw(*this, index, what);
}

bool Batch::finish_if_over() {
  // [batch-over] relaxed: written under the mutex that is held.
  if (!closed_ || ended_.total() != jobs_ || over_.load(std::memory_order_relaxed)) return false;
  // [batch-hold] relaxed: written under the mutex that is held.
  const Holds holds = holds_.load(std::memory_order_relaxed);
  if (has(holds, Hold::delay) || has(holds, Hold::batches)) return false;
  finished_at_ = std::max(unix_milliseconds(), std::max(started_at_, submitted_at_));
  handler_.stats.batch_duration.observe(std::chrono::milliseconds(finished_at_ - submitted_at_));
  // [batch-over] release: counters and results are complete; pairs with the acquire in is_over().
  over_.store(true, std::memory_order_release);
  return true;
}

bool Batch::finish_and_record() {
  const bool over = finish_if_over();
  if (over) record({}, {});
  return over;
}

void Batch::record(std::vector<IndexRange> ended, ResultLog::Slice rows) {
  if (journal_ == nullptr) return;
  journal_->record({.number = steps_++,
                    .ended = std::move(ended),
                    .rows = std::move(rows),
                    .batch = weak_from_this(),
                    .totals = ended_,
                    .row_count = log_.rows(),
                    .result_bytes = log_.appended_bytes(),
                    .started_at = started_at_,
                    .finished_at = finished_at_,
                    .cancelled = cancelled_,
                    .stop_reason = cancelled_ ? stop_reason_ : std::string()});
}

void Batch::tell() {
  if (observer_ != nullptr) observer_->batch_changed(shared_from_this());
}

}  // namespace locksley
