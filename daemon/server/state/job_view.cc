#include "daemon/server/state/job_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/batch/batch_attempts.h"
#include "core/batch/batch_failures.h"
#include "core/batch/job_facts.h"
#include "core/lane/lane_view.h"
#include "daemon/server/records/refusals.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {
namespace {

// If a worker of the pool may have ended the job a moment ago, this many rows near the job's place
// are searched for it.
constexpr std::uint64_t kNearRows = 65'536;

std::int64_t microseconds(Nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

}  // namespace

std::expected<JobLookup, std::string> JobLookup::begin(ServerState& state,
                                                       const std::shared_ptr<BatchRecord>& record,
                                                       std::uint64_t index, Waiting client,
                                                       std::function<void(const FoundJob&)> on_found) {
  const std::uint64_t jobs = record->status().jobs;
  if (index >= jobs) {
    return std::unexpected(no_such_job(record->id(), jobs));
  }
  JobLookup look(state.batches());
  look.record_ = record;
  look.view_.index = index;
  look.view_.attempt = record->attempts().of(index);
  // Before the executors and the ring are asked: a job that moves on meanwhile is found there, or
  // still counts as claimed.
  const BatchStatus before = record->status();
  look.look_at_running(state);
  if (look.place_ == Place::kUnknown && !record->is_over()) look.look_at_queue(state, before);
  const bool may_have_row = look.place_ == Place::kUnknown || look.place_ == Place::kMaybeClaimed;
  const std::uint64_t rows = look.place_ == Place::kMaybeRunning ? kNearRows
                             : may_have_row                      ? ~std::uint64_t{0}
                                                                 : 0;
  look.found_ = state.batches().reads().find_job(record, index, rows, std::move(client), std::move(on_found));
  return look;
}

JobLookup::~JobLookup() {
  if (found_ == nullptr || !found_->is_done) return;
  const std::uint64_t bytes = found_->memory_bytes();
  batches_->free_dropped(std::const_pointer_cast<FoundJob>(std::move(found_)), bytes);
}

void JobLookup::look_at_running(const ServerState& state) {
  const auto since = [this](Nanoseconds began) {
    view_.duration_us = microseconds(steady_now() - began);
    view_.started_at = unix_milliseconds() - view_.duration_us / 1000;
  };
  if (record_->is_over()) return;
  if (const auto running = record_->lane->running().find(*record_, view_.index)) {
    place_ = running->has_ended ? Place::kMaybeRunning : Place::kRunning;
    since(running->since);
    view_.attempt = running->attempt;
    view_.worker = running->worker;
    view_.progress = running->progress;
    view_.exit_status = running->exit_status;
    view_.log_bytes = running->log_end;
    if (!running->note.empty()) view_.note = running->note;
    return;
  }
  if (record_->lane != state.lanes().front()) return;
  const auto is_of_batch = [this](const Batch& batch) { return &batch == record_.get(); };
  for (const Pool::RunningJob& running : state.pool().running(is_of_batch)) {
    if (running.job.index != view_.index) continue;
    place_ = Place::kMaybeRunning;
    since(running.job.since);
    view_.worker = fmt::format("pool/{}", running.worker);
  }
}

void JobLookup::look_at_queue(const ServerState& state, const BatchStatus& before) {
  const std::optional<bool> is_queued = record_->lane->view().is_queued(*record_, view_.index);
  if (is_queued.value_or(false)) {
    place_ = record_->is_stopping() ? Place::kMaybeClaimed : Place::kQueued;
    return;
  }
  const std::uint64_t running = count_running(state, before);
  const std::uint64_t in_ring = record_->lane->view().batch(*record_).queued;
  const std::uint64_t claimed = before.queued + before.running - before.waiting;
  if ((!is_queued && in_ring != 0) || record_->is_requeueing() || claimed > in_ring + running) {
    place_ = Place::kMaybeClaimed;
  }
}

std::uint64_t JobLookup::count_running(const ServerState& state, const BatchStatus& before) const {
  constexpr std::size_t kMostExecutors = 1024;  // some 100 us, if all of them run jobs of the batch
  if (before.running == 0) return 0;
  const auto is_of_batch = [this](const Batch& batch) { return &batch == record_.get(); };
  if (record_->lane == state.lanes().front()) return state.pool().running(is_of_batch).size();
  std::uint64_t running = 0;
  const std::size_t next =
      record_->lane->running().visit(0, kMostExecutors, 0, is_of_batch, [&](const auto&) { ++running; });
  // Executors beyond these are taken to run a job each.
  return next == 0 ? running : std::max(running, before.running);
}

std::expected<JobView, std::string> JobLookup::end() const {
  if (!found_->error.empty()) return std::unexpected("STORE " + found_->error);
  JobView view = view_;
  bool may_run = true;
  if (found_->row) {
    const FoundJob::Row& row = *found_->row;
    view = {.index = view_.index, .attempt = view_.attempt};
    view.status = to_string(row.status);
    view.output = row.output;
    if (const auto facts = decode_facts(row.facts)) {
      view.attempt = facts->attempt;
      view.started_at = facts->started_at;
      view.finished_at = facts->finished_at();
      view.duration_us = facts->duration_us;
      view.worker = facts->worker;
      view.exit_status = facts->exit_status;
      view.progress = facts->progress;
      view.log_bytes = facts->log_end;
      if (!facts->note.empty()) view.note = std::string(facts->note);
    }
    may_run = is_failure(row.status) && !record_->is_stopping();
  } else {
    view.status = status_without_row();
    may_run = view.status == "queued" || view.status == "running" || view.status == "failed";
    if (view.status != "running") view.worker.clear();
    if (!view.note && may_run) {
      if (std::string note = record_->attempts().note(view.index); !note.empty()) view.note = std::move(note);
    }
  }
  if (!may_run) return view;
  if (auto held = record_->payloads().in_memory(view.index)) {
    view.payload = held->bytes;
    view.payload_owner = std::move(held->owner);
  } else if (found_->payload) {
    view.payload = *found_->payload;
  }
  return view;
}

std::string_view JobLookup::status_without_row() const {
  if (place_ == Place::kRunning || place_ == Place::kMaybeRunning) return "running";
  if (place_ == Place::kQueued) return "queued";
  const BatchStatus status = record_->status();
  const Keep keep = record_->options().keep;
  const std::optional<bool> has_failed = record_->failures().has(view_.index);
  if (has_failed.value_or(false)) return "failed";
  if (!record_->is_over()) {
    // A job that failed before and has not failed for good waits for its next attempt.
    if (record_->attempts().of(view_.index) > record_->attempts().first()) return "queued";
    const bool has_row = keep == Keep::kAll && status.discarded == 0;
    // An executor has claimed it, and is about to run it or to report its end.
    if (has_row || place_ == Place::kMaybeClaimed) return status.queued == 0 ? "running" : "queued";
  }
  // It has ended.
  const bool is_no_failure =
      has_failed.has_value() || status.failed == 0 || (keep == Keep::kFailures && status.discarded == 0);
  const bool is_ok = is_no_failure && status.cancelled == 0 && (keep != Keep::kAll || status.discarded != 0);
  return is_ok ? "ok" : "ended";
}

}  // namespace locksley::daemon
