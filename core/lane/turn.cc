#include "core/lane/turn.h"

#include <utility>

#include "core/base/check.h"

namespace locksley {

Turn::~Turn() {
  if (step_ == Step::kClaimed) begin_at_claim();
  if (step_ == Step::kBegun) leave();
  if (step_ == Step::kLeft) settle(steady_now());
}

bool Turn::try_claim(ClaimFilter filter, std::uint64_t max_jobs, const GateSet* gates) {
  check(step_ == Step::kNone, "an executor claims a turn in the middle of another");
  return hold(lane_.try_claim(steady_now(), filter, max_jobs, gates));
}

bool Turn::try_claim(const ClaimRequest& request) {
  check(step_ == Step::kNone, "an executor claims a turn in the middle of another");
  return hold(lane_.try_claim(steady_now(), request));
}

std::vector<IndexRange> Turn::reclaim(Batch& batch, IndexRange wanted, std::uint32_t width) {
  check(step_ == Step::kNone, "an executor reclaims jobs in the middle of a turn");
  auto reclaimed = lane_.reclaim(batch, wanted, width, steady_now());
  if (!reclaimed) return {};
  hold(batch, {}, Work::kJobs, reclaimed->charged, Nanoseconds{0});
  return std::move(reclaimed->ranges);
}

void Turn::join(Batch& batch, IndexRange stolen) {
  check(step_ == Step::kNone, "an executor joins a batch in the middle of a turn");
  const Work work = stolen.empty() ? Work::kSubJobs : Work::kJobs;
  hold(batch, stolen, work, lane_.join(batch, steady_now()), Nanoseconds{0});
}

bool Turn::hold(const std::optional<Claim>& claim) {
  if (!claim) return false;
  hold(*static_cast<Batch*>(claim->queue->batch()), claim->range, Work::kJobs, claim->charged, claim->waited);
  return true;
}

void Turn::hold(Batch& batch, IndexRange range, Work work, const Charge& charged, Nanoseconds waited) {
  batch_ = &batch;
  step_ = Step::kClaimed;
  jobs_width_ = work == Work::kJobs ? charged.width() : 0;
  ends_jobs_ = writer_ != nullptr && !range.empty();
  left_ = range;
  executed_ = started_ = 0;
  has_ended_well_ = false;
  backoff_ = Backoff::kNone;
  charged_ = charged;
  waited_ = waited;
}

void Turn::begin(Nanoseconds began) {
  check(step_ == Step::kClaimed, "a turn begins without a claim");
  step_ = Step::kBegun;
  began_ = began;
  is_counted_ = false;
  if (ends_jobs_) writer_->begin_batch(*batch_, began_);
}

void Turn::count_executors() {
  check(step_ == Step::kBegun, "a job begins outside of a turn");
  is_counted_ = true;
  batch_->executor_joined(jobs_width_);
}

void Turn::leave() {
  check(step_ == Step::kBegun, "an executor leaves a batch that it has not joined");
  step_ = Step::kLeft;
  // In this order: a reader who sees that nothing runs any more also sees every job that has ended.
  const auto outcome = ends_jobs_ ? writer_->end_batch() : ResultWriter::Outcome::kNothing;
  if (is_counted_) batch_->executor_left(jobs_width_);
  if (ends_jobs_) follow_up(outcome);
}

bool Turn::settle(Nanoseconds now, Nanoseconds service, Lane::Next next, ClaimFilter filter,
                  const GateSet* gates) {
  check(step_ == Step::kLeft, "a turn is settled before its executor has left the batch");
  step_ = Step::kNone;
  // A turn that found no payloads has only waited for them: that is no service to the batch, and no
  // cost of its jobs.
  const bool has_waited_only = backoff_ == Backoff::kNoPayloads && executed_ == 0;
  const Settlement settlement{.charged = charged_,
                              .actual = has_waited_only ? Nanoseconds{0} : service,
                              .executed = executed_,
                              .started = started_,
                              .left = left_,
                              .has_ended_well = has_ended_well_,
                              .backoff = backoff_};
  Batch& batch = *std::exchange(batch_, nullptr);
  return hold(lane_.settle(batch, settlement, now, next, filter, gates));
}

void Turn::follow_up(ResultWriter::Outcome outcome) {
  if (outcome == ResultWriter::Outcome::kTooManyFailures) lane_.cancel_after_failures(*batch_);
  if (no_room_ == NoRoom::kGoOn) return;
  if (BatchJournal* const journal = batch_->journal()) journal->wait_for_room();
}

}  // namespace locksley
