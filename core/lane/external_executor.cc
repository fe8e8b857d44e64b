#include "core/lane/external_executor.h"

#include <algorithm>
#include <exception>

#include "core/base/check.h"
#include "core/batch/handler.h"

namespace locksley {

ExternalExecutor::~ExternalExecutor() {
  check(!has_turn(), "an executor is destroyed in the middle of a turn");
}

bool ExternalExecutor::begin_turn(std::uint64_t most, std::size_t most_bytes, const GateSet* gates) {
  check(!has_turn(), "an executor begins a turn in the middle of another");
  while (turn_.try_claim(ClaimFilter::kAny, most, gates)) {
    first_ = turn_.left().low;
    fetched_ = started_ = ended_ = 0;
    lane_.external_wait.observe(turn_.waited());
    turn_.begin();
    job_began_ = turn_.began();
    writer_.begin_burst(first_);
    fetch(turn_.left().size(), most_bytes);
    if (fetched_ != 0) return true;
    end_turn();  // the payload of the first job could not be read, and the job has ended
  }
  return false;
}

// Jobs whose payloads were not fetched cannot start in this turn, and are handed back at its end.
void ExternalExecutor::fetch(std::uint64_t most, std::size_t most_bytes) {
  payloads_.resize(most);
  try {
    most = batch().payloads().fetch(first_, payloads_, scratch_);
  } catch (const std::exception& exception) {
    // The first alone: perhaps it is another one that cannot be read.
    if (most > 1) return fetch(1, most_bytes);
    started_ = 1;
    end_job(JobStatus::kError, std::string("cannot read the payload: ") + exception.what());
    return;
  }
  for (std::size_t bytes = 0; fetched_ < most && (fetched_ == 0 || bytes <= most_bytes);) {
    bytes += payloads_[fetched_++].size();
  }
}

std::optional<ExternalJob> ExternalExecutor::start_job() {
  if (started_ >= fetched_ || batch().is_stopping() || batch().is_held() || batch().is_at_result_limit()) {
    return std::nullopt;
  }
  if (started_ == ended_) job_began_ = steady_now();
  const ExternalJob job{first_ + started_, payloads_[started_]};
  ++started_;
  return job;
}

void ExternalExecutor::end_job(JobStatus status, std::string_view output) {
  check(ended_ < started_, "a job ends that was not started");
  writer_.begin_job(first_ + ended_);
  writer_.write(output);
  writer_.end_job(status);
  ++ended_;
  turn_.count_ended(1);
  if (status == JobStatus::kOk) turn_.note_ended_well();
  const Nanoseconds now = steady_now();
  batch().handler().stats.job_duration.observe(now - job_began_);
  job_began_ = now;
}

void ExternalExecutor::end_turn() {
  const Nanoseconds now = steady_now();
  turn_.set_started(started_);
  turn_.leave();
  const bool hands_back = !turn_.left().empty();
  turn_.settle(now);
  // As in a worker's turn.
  if (scratch_.capacity() > 2 * PayloadSource::kScratchBytes) std::string().swap(scratch_);
  // What was handed back is for the other executors, too.
  if (hands_back) lane_.wake();
}

}  // namespace locksley
