// Rows that earlier versions wrote are written anew at a start, as this version writes them.
#include <spdlog/logger.h>

#include <string>
#include <utility>

#include "daemon/base/hash128.h"
#include "daemon/base/log/log_line.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/store.h"

namespace locksley::daemon {
namespace {

// The same step, to be written again.
BatchStep step_of(StepRow row) {
  BatchStep step;
  step.ended = std::move(row.ended);
  step.failed = std::move(row.failed);
  step.requeued = std::move(row.requeued);
  step.job_attempts = std::move(row.job_attempts);
  step.totals = row.totals;
  step.row_count = row.rows;
  step.result_bytes = row.result_bytes;
  step.started_at = row.started_at;
  step.finished_at = row.finished_at;
  step.cancelled = row.cancelled;
  step.stop_reason = std::move(row.stop_reason);
  step.retried = row.retried;
  step.superseded = row.superseded;
  step.superseded_jobs = std::move(row.superseded_jobs);
  step.notes = std::move(row.notes);
  step.retry_rounds = row.retry_rounds;
  return step;
}

}  // namespace

void Store::move_failed_apart() {
  std::uint64_t moved = 0;
  for (const std::uint64_t sequence : std::exchange(long_ends_, {})) {
    // A few megabytes at a time.
    group_->wait_for_room();
    if (!group_->error().empty()) break;
    const EngineReading reading(*engine_);
    std::string bytes;
    if (!reading.is_valid()) break;
    if (!reading.get(Table::kIndex, row_key(kEndKey, sequence), bytes).value_or(false)) continue;
    // Jobs of the batch failed, so its results are not inside the row.
    if (auto end = decode_step(bytes)) {
      put(RecordStep{sequence, step_of(std::move(*end))}, Urgency::kWithNext);
      ++moved;
    }
  }
  if (moved == 0) return;
  LogLine("store: lists of failed jobs of an earlier version get rows of their own")
      .with("batches", moved)
      .write(*log_, spdlog::level::info);
}

void Store::move_patterns_apart() {
  std::uint64_t moved = 0;
  for (const LongPattern& each : std::exchange(long_patterns_, {})) {
    group_->wait_for_room();
    if (!group_->error().empty()) break;
    const EngineReading reading(*engine_);
    std::string bytes;
    if (!reading.is_valid()) break;
    if (!reading.get(Table::kIndex, row_key(kAcceptedKey, each.sequence), bytes).value_or(false)) continue;
    auto row = decode_accepted(bytes);
    if (!row || !row->range || !row->range->payload) continue;
    const std::string& pattern = *row->range->payload;
    if (row->id_is_chosen && !row->digest) {
      const Hash128::Value digest = Hash128::of(pattern);
      row->digest = {digest.low, digest.high};
    }
    row->payload_bytes = pattern.size();
    put(MovePattern{each.sequence, *std::move(row), each.is_wanted}, Urgency::kWithNext);
    ++moved;
  }
  if (moved == 0) return;
  LogLine("store: patterns of an earlier version get rows of their own")
      .with("batches", moved)
      .write(*log_, spdlog::level::info);
}

}  // namespace locksley::daemon
