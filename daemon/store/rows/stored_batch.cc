#include "daemon/store/rows/stored_batch.h"

#include <algorithm>
#include <utility>

#include "core/base/index_ranges.h"

namespace locksley::daemon {
namespace {

constexpr auto kStepsDisagree = "its results and its counters disagree";

void apply(const StepRow& step, BatchHistory& history) {
  history.totals = step.totals;
  history.rows = step.rows;
  history.result_bytes = step.result_bytes;
  history.started_at = step.started_at;
  history.finished_at = step.finished_at;
  history.retried = step.retried;
  history.superseded = step.superseded;
  history.superseded_jobs = step.superseded_jobs;
  history.retry_rounds = step.retry_rounds;
  if (step.cancelled) {
    history.cancelled = true;
    history.stop_reason = step.stop_reason;
  }
}

// How often a job of a batch that is over may have failed before it failed for good: the row of the
// end does not say it of each job. The result is an upper bound, since each RETRY begins the count
// anew.
std::uint32_t most_earlier_failures(std::uint32_t retries, std::uint64_t retry_rounds) {
  // Limits the rounds, so that attempts do not overflow.
  constexpr std::uint64_t kMostRounds = 10'000;
  const std::uint64_t rounds = std::min(retry_rounds, kMostRounds) + 1;
  return static_cast<std::uint32_t>(rounds * (retries + 1) - 1);
}

}  // namespace

std::expected<void, std::string> BatchAssembly::add(std::string_view key, std::string_view value) {
  if (key.front() == kAcceptedKey) return accept(value);
  if (!is_accepted_) return {};
  switch (key.front()) {
    case kChangesKey:
      return change(value);
    case kEndKey:
      return end(value);
    case kStepKey: {
      if (is_over_) return {};
      auto step = decode_step(value);
      if (!steps_) steps_.emplace();
      if (!step || !steps_->apply(last_number(key), std::move(*step))) return std::unexpected(kStepsDisagree);
      return {};
    }
    default:
      return {};
  }
}

std::expected<void, std::string> BatchAssembly::accept(std::string_view value) {
  AcceptedRow& accepted = batch_.accepted;
  const auto split = split_row(value);
  if (!split || !decode(split->row, accepted)) return std::unexpected("its first row is damaged");
  is_accepted_ = true;
  if (!split->inside.empty()) {
    batch_.parts = PayloadParts::kInRow;
    batch_.payloads_inside = split->inside;
  }
  if (accepted.range && accepted.range->is_apart) batch_.parts = PayloadParts::kOne;
  batch_.payload_bytes = accepted.payload_bytes;
  BatchHistory& history = batch_.history;
  history.jobs = accepted.jobs;
  history.closed = !accepted.is_streamed;
  history.weight = accepted.options.weight;
  history.slots = accepted.options.slots;
  history.submitted_at = accepted.submitted_at;
  return {};
}

std::expected<void, std::string> BatchAssembly::change(std::string_view value) {
  auto changed = decode_changes(value);
  if (!changed) return std::unexpected("its changes are damaged");
  batch_.has_changes = true;
  BatchHistory& history = batch_.history;
  history.weight = changed->weight;
  if (changed->slots) history.slots = *changed->slots;
  history.paused = changed->is_paused;
  history.cancelled = changed->is_cancelled;
  history.stop_reason = changed->stop_reason;
  history.attempt = changed->attempt;
  history.discarded = changed->discarded_rows;
  history.discarded_bytes = changed->discarded_bytes;
  if (batch_.accepted.is_streamed) {
    history.jobs = changed->jobs;
    batch_.payload_bytes = changed->payload_bytes;
    history.closed = changed->is_closed;
  }
  batch_.changes = std::move(*changed);
  return {};
}

std::expected<void, std::string> BatchAssembly::end(std::string_view value) {
  const auto split = split_row(value);
  StepRow row;
  if (!split || !decode(split->row, row) || row.finished_at == 0) {
    return std::unexpected("the row of its end is damaged");
  }
  is_over_ = true;
  batch_.payloads_inside.clear();
  BatchHistory& history = batch_.history;
  apply(row, history);
  history.failed = std::move(row.failed);
  history.failed_unread = row.failed_apart != 0;
  history.notes = std::move(row.notes);
  history.earlier_failures = most_earlier_failures(batch_.accepted.options.retries, history.retry_rounds);
  history.closed = true;
  history.jobs = history.totals.total();
  batch_.has_results_inside = !split->inside.empty();
  // Payloads inside the first row stay there.
  if (history.totals.failed() == 0 && batch_.parts != PayloadParts::kInRow) batch_.payload_bytes = 0;
  return {};
}

std::expected<void, std::string> BatchAssembly::finish() {
  if (is_over_) return {};
  BatchHistory& history = batch_.history;
  if (!steps_) steps_.emplace();
  const auto ended = steps_->ended(history.jobs);
  if (!ended || count_of(*ended) != steps_->last().totals.total()) return std::unexpected(kStepsDisagree);
  if (steps_->steps() != 0) apply(steps_->last(), history);
  history.superseded_jobs = steps_->superseded_jobs();
  history.steps = steps_->steps();
  history.failed = steps_->failed();
  history.job_attempts = steps_->job_attempts();
  history.notes = steps_->notes();
  // A cancelled batch takes no further jobs, although its last row of changes may say that it is
  // open.
  history.closed = history.closed || history.cancelled;
  const IndexRange whole{0, history.jobs};
  batch_.left = difference({&whole, 1}, *ended);
  return {};
}

}  // namespace locksley::daemon
