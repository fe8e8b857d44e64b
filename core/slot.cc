#include "core/slot.h"

#include <algorithm>
#include <exception>

#include "core/check.h"
#include "core/handler.h"

namespace locksley {

Slot::~Slot() { check(!has_turn(), "a slot is destroyed in the middle of a turn"); }

bool Slot::begin_turn(std::uint64_t most, std::size_t most_bytes) {
  check(!has_turn(), "a slot begins a turn in the middle of another");
  while (auto claim = lane_.ring().try_claim(steady_now(), ClaimFilter::any, most)) {
    batch_ = static_cast<Batch*>(claim->queue->owner())->shared_from_this();
    range_ = claim->range;
    charged_ = claim->charged;
    began_ = job_began_ = steady_now();
    fetched_ = started_ = ended_ = 0;
    lane_.slot_wait.observe(claim->waited);
    batch_->executor_joined();
    writer_.begin_batch(*batch_);
    writer_.begin_piece(range_.low);
    fetch(range_.size(), most_bytes);
    if (fetched_ != 0) return true;
    end_turn();  // the first has no payload, and has ended
  }
  return false;
}

// What cannot be started in this turn is handed back at its end.
void Slot::fetch(std::uint64_t most, std::size_t most_bytes) {
  payloads_.resize(most);
  try {
    batch_->payloads().fetch(range_.low, payloads_, scratch_);
  } catch (const std::exception& exception) {
    // One at a time: perhaps it is not the first that cannot be had.
    if (most > 1) return fetch(1, most_bytes);
    started_ = 1;
    end_job(JobStatus::error, std::string("the payload cannot be had: ") + exception.what());
    return;
  }
  for (std::size_t bytes = 0; fetched_ < most && (fetched_ == 0 || bytes <= most_bytes);) {
    bytes += payloads_[fetched_++].size();
  }
}

std::optional<SlotJob> Slot::start_job() {
  if (started_ >= fetched_ || batch_->is_stopping() || batch_->is_held()) return std::nullopt;
  if (started_ == ended_) job_began_ = steady_now();
  const SlotJob job{range_.low + started_, payloads_[started_]};
  ++started_;
  return job;
}

void Slot::end_job(JobStatus status, std::string_view output) {
  check(ended_ < started_, "a job ends that was not started");
  writer_.begin_job(range_.low + ended_);
  writer_.write(output);
  writer_.end_job(status);
  ++ended_;
  const Nanoseconds now = steady_now();
  batch_->handler().stats.job_duration.observe(now - job_began_);
  job_began_ = now;
}

void Slot::publish() { after_publication(writer_.publish()); }

void Slot::end_turn() {
  const Settlement settlement{.charged = charged_,
                              .actual = steady_now() - began_,
                              .executed = ended_,
                              .left = {range_.low + ended_, range_.high}};
  // In this order: whoever sees that nothing runs any more sees all that has ended, too.
  after_publication(writer_.end_batch());
  batch_->executor_left();
  const std::shared_ptr<Batch> batch = std::move(batch_);
  lane_.settle(*batch, settlement, steady_now(), Lane::Next::nothing);
  // What was handed back is for the other slots, too.
  if (!settlement.left.empty()) lane_.wake();
}

void Slot::after_publication(ResultWriter::Outcome outcome) {
  if (outcome == ResultWriter::Outcome::too_many_failures) lane_.cancel_after_failures(*batch_);
  if (BatchJournal* const journal = batch_->journal()) journal->wait_for_room();
}

}  // namespace locksley
