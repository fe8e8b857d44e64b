// Length: one class, whose random writes all depend on the same state.
#include "tests/support/store_workload.h"

#include <algorithm>
#include <utility>

#include "core/base/index_ranges.h"

namespace locksley::testing {
namespace {

using daemon::AcceptBatch;
using daemon::AddJobs;
using daemon::ChangeBatch;
using daemon::ForgetBatch;
using daemon::RecordStep;
using daemon::StoreWrite;

constexpr std::size_t kMostBatches = 8;

bool is_streamed(const StoreModel::Batch& batch) { return batch.accepted.is_streamed; }

// A text that differs from batch to batch and from job to job.
std::string random_text(std::mt19937_64& random, std::size_t size) {
  std::string text(size, '\0');
  std::ranges::generate(text, [&] { return static_cast<char>('a' + random() % 26); });
  return text;
}

std::uint64_t bytes_of(const std::vector<std::string>& payloads) {
  std::uint64_t sum = 0;
  for (const std::string& each : payloads) sum += each.size();
  return sum;
}

}  // namespace

StoreWorkload::StoreWorkload(std::uint64_t seed, StoreModel state, std::uint64_t next_sequence)
    : random_(seed), state_(std::move(state)), next_sequence_(next_sequence) {
  for (const auto& [sequence, batch] : state_.batches) {
    Plan plan;
    plan.steps = std::make_unique<StepMaker>(sequence, batch);
    plan.unsettled = 0;
    plan.is_ours = false;
    if (batch.changes) plan.changes = *batch.changes;
    plan.changes.jobs = batch.jobs();
    for (const std::uint64_t job : batch.failed) append_range(plan.failed, {job, job + 1});
    for (std::uint64_t job = 0; job < batch.jobs() && !batch.is_over(); ++job) {
      if (!batch.ended.contains(job)) plan.left.push_back({job, job + 1});
    }
    plans_.emplace(sequence, std::move(plan));
  }
}

std::vector<StoreWrite> StoreWorkload::begin() {
  std::vector<StoreWrite> writes;
  for (auto& [sequence, plan] : plans_) {
    const StoreModel::Batch& batch = state_.batches[sequence];
    if (batch.is_over()) continue;
    ++plan.changes.attempt;
    plan.changes.is_closed = batch.is_closed();
    writes.emplace_back(ChangeBatch{sequence, plan.changes, !batch.is_closed()});
  }
  for (const StoreWrite& write : writes) state_.apply(write);
  return writes;
}

template <class Condition>
std::uint64_t StoreWorkload::any(Condition condition) {
  std::vector<std::uint64_t> found;
  for (const auto& [sequence, batch] : state_.batches) {
    if (condition(sequence, batch)) found.push_back(sequence);
  }
  return found.empty() ? 0 : found[below(found.size())];
}

std::vector<std::string> StoreWorkload::random_payloads() {
  std::vector<std::string> payloads;
  // Often more than fits into one chunk; now and then it is written in several parts.
  if (const std::uint64_t roll = below(60); roll < 10) {
    const std::size_t size = roll == 0 ? 1U << 20 : 40U << 10;
    for (int i = 0; i < 5; ++i) payloads.emplace_back(size, static_cast<char>('a' + below(26)));
    return payloads;
  }
  for (std::uint64_t left = 1 + below(30); left > 0; --left) {
    payloads.push_back(random_text(random_, below(8) == 0 ? below(20'000) : below(60)));
  }
  return payloads;
}

StoreWrite StoreWorkload::accept() {
  const std::uint64_t sequence = next_sequence_++;
  AcceptBatch write{.sequence = sequence, .row = {}, .payloads = nullptr};
  write.row.handler = "echo";
  write.row.options.id = "batch-" + std::to_string(sequence);
  write.row.options.name = random_text(random_, below(10));
  write.row.options.keep = static_cast<Keep>(below(3));
  write.row.submitted_at = clock_ += 10;
  if (below(3) == 0) write.row.options.retries = static_cast<std::uint32_t>(below(5));
  if (below(5) == 0) write.row.start_at = clock_ + 1000;
  const bool waits = below(3) == 0;
  for (const auto& [other, batch] : state_.batches) {
    if (!waits || batch.is_over() || plans_.at(other).unsettled != 0 || below(2) == 0) continue;
    write.row.after.push_back({other, random_text(random_, below(10)), below(2) == 0});
  }
  const std::uint64_t kind = below(10);
  if (kind < 5) {
    const std::vector<std::string> payloads = random_payloads();
    write.row.jobs = payloads.size();
    write.row.payload_bytes = bytes_of(payloads);
    write.payloads = payloads_of(payloads);
  } else if (kind < 7) {
    write.row.jobs = 1 + below(200);
    write.row.range = {static_cast<std::int64_t>(below(100)), std::nullopt};
  } else {
    write.row.is_streamed = true;
  }
  Plan plan;
  plan.steps = std::make_unique<StepMaker>(sequence);
  plan.unsettled = 1;
  plan.changes.jobs = write.row.jobs;
  plan.changes.is_closed = !write.row.is_streamed;
  if (!write.row.is_streamed) {
    plan.parts = write.payloads != nullptr ? daemon::parts_of(*write.payloads) : daemon::PayloadParts::kNone;
  }
  plans_.emplace(sequence, std::move(plan));
  return write;
}

StoreWrite StoreWorkload::add(std::uint64_t sequence, const std::vector<std::string>& payloads) {
  Plan& plan = plans_.at(sequence);
  AddJobs write{
      .sequence = sequence, .first = plan.changes.jobs, .payloads = payloads_of(payloads), .changes = {}};
  plan.changes.jobs += payloads.size();
  plan.changes.payload_bytes += bytes_of(payloads);
  write.changes = plan.changes;
  ++plan.unsettled;
  return write;
}

StoreWrite StoreWorkload::change(std::uint64_t sequence) {
  Plan& plan = plans_.at(sequence);
  if (!plan.changes.is_closed && below(2) == 0) {
    plan.changes.is_closed = true;
  } else if (below(2) == 0) {
    plan.changes.is_paused = !plan.changes.is_paused;
  } else {
    plan.changes.weight = static_cast<std::uint32_t>(1 + below(100));
  }
  return ChangeBatch{.sequence = sequence, .changes = plan.changes};
}

std::vector<StoreWorkload::Untold> StoreWorkload::untold() const {
  std::vector<Untold> found;
  for (const auto& [sequence, batch] : state_.batches) {
    const daemon::ChangesRow& changes = plans_.at(sequence).changes;
    if (batch.is_over() || changes.is_released) continue;
    for (std::size_t place = 0; place < batch.accepted.after.size(); ++place) {
      const auto other = state_.batches.find(batch.accepted.after[place].sequence);
      if (changes.is_satisfied(place) || (other != state_.batches.end() && !other->second.is_over()))
        continue;
      found.push_back({sequence, place});
    }
  }
  return found;
}

StoreWrite StoreWorkload::tell(const Untold& untold) {
  daemon::ChangesRow& changes = plans_.at(untold.sequence).changes;
  changes.set_satisfied(untold.place);
  const std::size_t waits = state_.batches[untold.sequence].accepted.after.size();
  std::size_t satisfied = 0;
  for (std::size_t i = 0; i < waits; ++i) satisfied += changes.is_satisfied(i) ? 1 : 0;
  if (satisfied == waits) {
    changes.is_released = true;
    changes.satisfied.clear();
  }
  return ChangeBatch{.sequence = untold.sequence, .changes = changes};
}

bool StoreWorkload::is_waited_for(std::uint64_t sequence) const {
  return std::ranges::any_of(untold(), [&](const Untold& each) {
    return state_.batches.at(each.sequence).accepted.after[each.place].sequence == sequence;
  });
}

StoreWrite StoreWorkload::begin_scene(const Untold& untold) {
  scene_ = {.told = untold,
            .ended = state_.batches.at(untold.sequence).accepted.after[untold.place].sequence};
  return add(untold.sequence, std::vector(20, random_text(random_, 40U << 10)));
}

std::optional<StoreWrite> StoreWorkload::go_on_with_scene() {
  // It may have been refused meanwhile.
  if (!state_.batches.contains(scene_->told.sequence)) {
    scene_.reset();
    return std::nullopt;
  }
  if (!std::exchange(scene_->is_told, true)) return tell(scene_->told);
  const std::uint64_t ended = std::exchange(scene_, std::nullopt)->ended;
  if (!state_.batches.contains(ended) || is_waited_for(ended)) return std::nullopt;
  return forget(ended);
}

bool StoreWorkload::may_end(std::uint64_t sequence) {
  const Plan& plan = plans_.at(sequence);
  return plan.changes.is_closed && plan.left.empty() && plan.unsettled == 0;
}

StoreWrite StoreWorkload::step(std::uint64_t sequence) {
  RecordStep write = steps_of(sequence);
  write.parts = plans_.at(sequence).parts;
  return write;
}

ForgetBatch StoreWorkload::forget(std::uint64_t sequence) {
  const Plan& plan = plans_.at(sequence);
  const StoreModel::Batch& batch = state_.batches[sequence];
  ForgetBatch write{.sequence = sequence, .rows = {.parts = plan.parts}};
  if (plan.is_ours) {
    BatchStatus status{};
    status.steps = batch.steps;
    status.rows = batch.last.row_count;
    status.failed = batch.last.totals.failed();
    status.cancelled = batch.last.totals.count(JobStatus::kCancelled);
    status.retried = batch.last.retried;
    status.result_bytes = batch.last.result_bytes;
    // Not may_have_failed_rows: a run of the workload may put fewer ranges into a row than
    // rows_of() expects.
    write.rows.has_one_step = status.steps == 1;
    write.rows.may_have_marks = daemon::may_have_marks(status);
    write.rows.may_have_changes = batch.changes.has_value();
    write.rows.has_results_inside = daemon::has_results_inside(status);
  }
  plans_.erase(sequence);
  return write;
}

RecordStep StoreWorkload::steps_of(std::uint64_t sequence) {
  Plan& plan = plans_.at(sequence);
  if (plan.left.empty()) {
    RecordStep write = plan.steps->end_batch();
    write.step.failed = sorted(plan.failed);
    return write;
  }
  const std::uint64_t at = below(plan.left.size());
  const IndexRange whole = plan.left[at];
  const std::uint64_t low = whole.low + below(whole.size());
  const IndexRange range{low, low + 1 + below(whole.high - low)};
  plan.left.erase(plan.left.begin() + static_cast<std::ptrdiff_t>(at));
  if (whole.low < range.low) plan.left.push_back({whole.low, range.low});
  if (range.high < whole.high) plan.left.push_back({range.high, whole.high});
  RecordStep write{};
  if (below(10) == 0) {
    write = plan.steps->cancel_jobs(range, "cancelled " + random_text(random_, below(5)));
  } else {
    const Keep keep = state_.batches[sequence].accepted.options.keep;
    const bool may_fail = sequence % 2 == 0;
    EndedJobs ended;
    std::vector<IndexRange> failed;
    std::vector<StoredRow> rows;
    for (std::uint64_t job = range.low; job < range.high; ++job) {
      const JobStatus status = may_fail && below(10) == 0 ? JobStatus::kError : JobStatus::kOk;
      ++ended.by_status[static_cast<std::size_t>(status)];
      if (status != JobStatus::kOk) append_range(failed, {job, job + 1});
      if (keep == Keep::kAll || (keep == Keep::kFailures && status != JobStatus::kOk)) {
        rows.push_back({job, status, random_text(random_, below(30))});
      }
    }
    std::ranges::shuffle(rows, random_);
    write = plan.steps->end_jobs({range}, ended, rows);
    for (const IndexRange& each : failed) append_range(plan.failed, each);
    write.step.failed = std::move(failed);
  }
  if (may_end(sequence)) {
    write = StepMaker::as_last(std::move(write));
    write.step.failed = sorted(plan.failed);
  }
  return write;
}

StoreWrite StoreWorkload::try_again(std::uint64_t sequence) {
  Plan& plan = plans_.at(sequence);
  const auto& job_attempts = state_.batches[sequence].job_attempts;
  std::vector<JobAttempts> again;
  const IndexRange whole = plan.left[below(plan.left.size())];
  for (std::uint64_t job = whole.low; job < whole.high && again.size() < 20; ++job) {
    if (below(2) == 0) continue;
    const auto known = job_attempts.find(job);
    AttemptCounts attempts = known == job_attempts.end() ? AttemptCounts{} : known->second;
    ++attempts.failed;
    again.push_back({{job, job + 1}, attempts});
  }
  RecordStep write = plan.steps->retry_jobs(std::move(again));
  write.parts = plan.parts;
  return write;
}

StoreWrite StoreWorkload::requeue(std::uint64_t sequence) {
  Plan& plan = plans_.at(sequence);
  const StoreModel::Batch& batch = state_.batches[sequence];
  const std::vector<IndexRange> failed = sorted(std::exchange(plan.failed, {}));
  std::vector<JobAttempts> job_attempts;
  for (const IndexRange& range : failed) job_attempts.push_back({range, {2, 2}});
  std::optional<std::vector<IndexRange>> ended;
  if (batch.is_over()) {
    const IndexRange all{0, batch.jobs()};
    ended = difference({&all, 1}, failed);
  }
  for (const IndexRange& range : failed) plan.left.push_back(range);
  RecordStep write = plan.steps->requeue(failed, std::move(job_attempts), std::move(ended));
  write.parts = plan.parts;
  return write;
}

StoreWrite StoreWorkload::next() {
  const auto choose = [&]() -> StoreWrite {
    if (scene_) {
      if (auto write = go_on_with_scene()) return *std::move(write);
    }
    for (;;) {
      if (const auto waiting = untold(); !waiting.empty() && below(4) == 0) {
        const Untold& one = waiting[below(waiting.size())];
        const bool takes_jobs = state_.batches.at(one.sequence).accepted.is_streamed &&
                                !plans_.at(one.sequence).changes.is_closed;
        return takes_jobs ? begin_scene(one) : tell(one);
      }
      const std::uint64_t roll = below(100);
      if (roll < 15 && state_.batches.size() < kMostBatches) return accept();
      if (roll < 35) {
        const std::uint64_t found = any([&](std::uint64_t sequence, const StoreModel::Batch& batch) {
          return is_streamed(batch) && !batch.is_over() && !plans_.at(sequence).changes.is_closed;
        });
        if (found != 0) return add(found, random_payloads());
      } else if (roll < 45) {
        const std::uint64_t found =
            any([](std::uint64_t, const StoreModel::Batch& batch) { return !batch.is_over(); });
        if (found != 0) return change(found);
      } else if (roll < 50) {
        const std::uint64_t found = any([&](std::uint64_t sequence, const StoreModel::Batch& batch) {
          return !batch.is_over() && !plans_.at(sequence).left.empty();
        });
        if (found != 0) return try_again(found);
      } else if (roll < 55) {
        // Jobs of a cancelled batch are not queued again.
        const std::uint64_t found = any([&](std::uint64_t sequence, const StoreModel::Batch& batch) {
          return !plans_.at(sequence).failed.empty() && !batch.last.cancelled;
        });
        if (found != 0) return requeue(found);
      } else if (roll < 92) {
        const std::uint64_t found = any([&](std::uint64_t sequence, const StoreModel::Batch& batch) {
          return !batch.is_over() && (!plans_.at(sequence).left.empty() || may_end(sequence));
        });
        if (found != 0) return step(found);
      } else {
        const std::uint64_t found = any([this](std::uint64_t sequence, const StoreModel::Batch& batch) {
          return batch.is_over() && !is_waited_for(sequence);
        });
        if (found != 0) return forget(found);
      }
    }
  };
  StoreWrite write = choose();
  state_.apply(write);
  return write;
}

void StoreWorkload::taken(const StoreWrite& write) {
  const auto settle = [this](std::uint64_t sequence, std::uint64_t first, std::uint64_t jobs) {
    const auto found = plans_.find(sequence);
    if (found == plans_.end()) return;
    --found->second.unsettled;
    if (jobs != 0) found->second.left.push_back({first, first + jobs});
  };
  if (const auto* accept = std::get_if<AcceptBatch>(&write)) settle(accept->sequence, 0, accept->row.jobs);
  if (const auto* add = std::get_if<AddJobs>(&write))
    settle(add->sequence, add->first, add->payloads->size());
}

std::vector<StoreWrite> StoreWorkload::refused(const StoreWrite& write) {
  std::vector<StoreWrite> reaction;
  if (const auto* accept = std::get_if<AcceptBatch>(&write)) {
    Plan& plan = plans_.at(accept->sequence);
    RecordStep end =
        StepMaker::as_last(plan.steps->cancel_jobs({0, accept->row.jobs}, "the store refused the batch"));
    end.parts = plan.parts;
    state_.apply(end);
    reaction.emplace_back(std::move(end));
    reaction.emplace_back(forget(accept->sequence));
    state_.apply(reaction.back());
    return reaction;
  }
  if (const auto* add = std::get_if<AddJobs>(&write)) {
    const auto found = plans_.find(add->sequence);
    if (found == plans_.end()) return {};
    Plan& plan = found->second;
    --plan.unsettled;
    plan.changes.jobs -= add->payloads->size();
    for (const std::string_view payload : *add->payloads) plan.changes.payload_bytes -= payload.size();
    reaction.emplace_back(ChangeBatch{add->sequence, plan.changes, true});
    state_.apply(reaction.back());
  }
  return reaction;
}

}  // namespace locksley::testing
