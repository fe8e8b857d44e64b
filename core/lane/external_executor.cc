#include "core/lane/external_executor.h"

#include <exception>
#include <utility>

#include "core/base/check.h"
#include "core/base/index_ranges.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/handler.h"

namespace locksley {

ExternalExecutor::~ExternalExecutor() {
  check(!has_turn(), "an executor is destroyed in the middle of a turn");
}

bool ExternalExecutor::begin_turn(std::uint64_t most, std::size_t most_bytes, const GateSet* gates) {
  check(!has_turn(), "an executor begins a turn in the middle of another");
  in_any_order_ = false;
  while (turn_.try_claim(ClaimFilter::kAny, most, gates)) {
    first_ = turn_.left().low;
    fetched_ = started_ = ended_ = 0;
    lane_.external_wait.observe(turn_.waited());
    turn_.begin_at_claim();
    job_began_ = turn_.began();
    writer_.begin_burst(first_);
    fetch(turn_.left().size(), most_bytes);
    if (fetched_ != 0) return true;
    end_turn();  // the first payload could not be read
  }
  return false;
}

// Jobs whose payloads were not fetched cannot start in this turn, and are given back at its end.
void ExternalExecutor::fetch(std::uint64_t most, std::size_t most_bytes) {
  payloads_.resize(most);
  try {
    most = batch().payloads().fetch(first_, payloads_, scratch_);
  } catch (const std::exception& exception) {
    // Fetches only the first payload: perhaps only a later payload cannot be read.
    if (most > 1) return fetch(1, most_bytes);
    started_ = 1;
    turn_.job_begins();
    end_job(JobStatus::kError, std::string("cannot read the payload: ") + exception.what());
    return;
  }
  if (most == 0) turn_.set_backoff(Backoff::kNoPayloads);
  for (std::size_t bytes = 0; fetched_ < most && (fetched_ == 0 || bytes <= most_bytes);) {
    bytes += payloads_[fetched_++].size();
  }
}

std::optional<ExternalJob> ExternalExecutor::start_job() {
  if (started_ >= fetched_ || batch().is_stopping() || batch().is_held() || batch().is_at_result_limit()) {
    return std::nullopt;
  }
  const bool is_oldest = started_ == ended_;
  if (is_oldest) job_began_ = steady_now();
  const ExternalJob job{first_ + started_, payloads_[started_]};
  ++started_;
  turn_.job_begins();
  if (in_any_order_) {
    auto& shown = shown_[job.index];
    shown = std::make_unique<ShownJob>(lane_.running());
    shown->begin(job_to_show(job.index, steady_now()));
  } else if (is_oldest) {
    running_.begin(job_to_show(first_ + ended_, job_began_));
  }
  return job;
}

void ExternalExecutor::set_starting(bool is_starting) {
  if (std::exchange(is_starting_, is_starting) == is_starting) return;
  lane_.running().set_starting(batch(), first_, is_starting);
}

void ExternalExecutor::allow_any_order() {
  check(started_ == 0, "a turn is in any order from its first job on");
  in_any_order_ = true;
  not_ended_ = {};
  not_ended_.add(turn_.left());
  turn_.set_left({});
}

ShownJob* ExternalExecutor::running(std::uint64_t index) const {
  const auto found = shown_.find(index);
  return found == shown_.end() ? nullptr : found->second.get();
}

std::vector<std::uint64_t> ExternalExecutor::running_indexes() const {
  std::vector<std::uint64_t> indexes;
  indexes.reserve(shown_.size());
  for (const auto& [index, job] : shown_) indexes.push_back(index);
  return indexes;
}

void ExternalExecutor::end_job(std::uint64_t index, JobStatus status, std::string_view output,
                               std::optional<std::int32_t> exit_status) {
  const auto shown = shown_.find(index);
  check(shown != shown_.end(), "a job ends that does not run");
  const Nanoseconds now = steady_now();
  writer_.begin_burst(index);
  writer_.begin_job(index);
  writer_.replace_output(output);
  facts_.clear();
  shown->second->append_facts(now, exit_status, facts_);
  writer_.end_job(status, facts_);
  batch().handler().stats.job_duration.observe(now - shown->second->since());
  published_.push_back(std::move(shown->second));
  shown_.erase(shown);
  ++ended_;
  (void)not_ended_.take({index, index + 1});
  turn_.count_executed(1);
  if (status == JobStatus::kOk) turn_.note_ended_well();
}

ShownJob::Job ExternalExecutor::job_to_show(std::uint64_t index, Nanoseconds since) const {
  return {.batch = batch(),
          .index = index,
          .attempt = batch().attempts().of(index),
          .since = since,
          .worker = worker_,
          .has_line_notes = has_line_notes_};
}

void ExternalExecutor::end_job(JobStatus status, std::string_view output,
                               std::optional<std::int32_t> exit_status) {
  check(ended_ < started_, "a job ends that was not started");
  if (in_any_order_) return end_job(shown_.begin()->first, status, output, exit_status);
  const Nanoseconds now = steady_now();
  writer_.begin_job(first_ + ended_);
  writer_.replace_output(output);
  if (running_.is_begun()) {
    facts_.clear();
    running_.append_facts(now, exit_status, facts_);
    writer_.end_job(status, facts_);
  } else {  // its payload could not be read
    writer_.end_job(status);
  }
  ++ended_;
  turn_.count_ended(1);
  if (status == JobStatus::kOk) turn_.note_ended_well();
  batch().handler().stats.job_duration.observe(now - job_began_);
  job_began_ = now;
  if (ended_ < started_) running_.begin(job_to_show(first_ + ended_, now));
}

void ExternalExecutor::end_turn() {
  set_starting(false);
  turn_.set_started(started_);
  if (ended_ < started_ && running_.is_begun()) running_.save_note();
  bool gives_back_some = false;
  if (in_any_order_) {
    for (const auto& [index, job] : shown_) job->save_note();
    const std::vector<IndexRange> rest = not_ended_.take_all();
    gives_back_some = !rest.empty();
    if (gives_back_some) turn_.give_back(rest, count_of(rest) - shown_.size());
  }
  turn_.leave();
  running_.clear();
  shown_.clear();
  published_.clear();
  if (facts_.capacity() > 2 * JobLog::kMost) std::string().swap(facts_);
  const bool gives_back = gives_back_some || !turn_.left().empty();
  turn_.settle(steady_now());
  // A large buffer is not kept, as in a worker's turn.
  if (scratch_.capacity() > 2 * PayloadSource::kScratchBytes) std::string().swap(scratch_);
  // Other executors may claim the jobs that were given back.
  if (gives_back) lane_.wake();
}

}  // namespace locksley
