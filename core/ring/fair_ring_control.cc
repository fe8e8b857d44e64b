// Changes of queues and of the ring that are effective at once for all queued jobs.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "core/ring/fair_ring.h"

namespace locksley {

void FairRing::set_weight(RingQueue& queue, std::uint32_t weight) {
  const RingLock lock(mutex_);
  if (queue.seat_ != nullptr) queue.seat_->group.clock.set_weight(queue.fair, std::max(weight, 1U));
}

void FairRing::set_slots(RingQueue& queue, std::uint32_t slots, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return;
  queue.slots_ = slots;
  queue.capped_ = slots != 0 ? Charge::kCapped : std::uint16_t{0};
  arrive(queue, now);
  publish();
}

void FairRing::pause(RingQueue& queue, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr || queue.cancelled_) return;
  queue.paused_ = true;
  refresh(queue, now);
  publish();
}

void FairRing::resume(RingQueue& queue, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return;
  queue.paused_ = false;
  arrive(queue, now);
  publish();
}

namespace {
constexpr int kWaitsAtOnce = 64;  // that one call ends; guess: some 30 us with the mutex
}  // namespace

std::optional<Nanoseconds> FairRing::end_waits(Nanoseconds now) {
  const RingLock lock(mutex_);
  standings_.advance(now);
  int left = end_some_backoffs(now, now, kWaitsAtOnce);
  while (RingGroup* const group = waits_.ended_rate(now)) {
    if (left-- == 0) break;
    waits_.set_rate(*group, std::nullopt);
    standings_.refresh(*group);
    if (!group->at_limit()) hints_.count_arrival();
  }
  publish();
  return waits_.next();
}

bool FairRing::end_backoffs(Nanoseconds now) {
  const RingLock lock(mutex_);
  const int left = end_some_backoffs(Nanoseconds::max(), now, kWaitsAtOnce);
  publish();
  return left != 0;
}

int FairRing::end_some_backoffs(Nanoseconds until, Nanoseconds now, int most) {
  while (most != 0) {
    RingQueue* const queue = waits_.ended_backoff(until);
    if (queue == nullptr) break;
    waits_.end_backoff(*queue);
    arrive(*queue, now);
    --most;
  }
  return most;
}

void FairRing::payloads_arrived(RingQueue& queue, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return;
  RingWaits::note_arrival(queue, standings_.advance(now));
  if (queue.backoff_ != Backoff::kNoPayloads) return;
  waits_.end_backoff(queue);
  arrive(queue, now);
  publish();
}

void FairRing::set_parallelism(std::uint32_t parallelism) {
  const RingLock lock(mutex_);
  costs_.set_parallelism(parallelism);
}

void FairRing::set_remote_parallelism(std::uint32_t remote) {
  const RingLock lock(mutex_);
  costs_.set_remote_parallelism(remote);
}

void FairRing::set_quantum(Nanoseconds quantum) {
  const RingLock lock(mutex_);
  costs_.set_quantum(quantum);
}

void FairRing::set_brief_job(Nanoseconds brief_job, Nanoseconds now) {
  const RingLock lock(mutex_);
  costs_.set_brief_job(brief_job);
  for (RingQueue* const queue : book_.queues()) refresh(*queue, now);
  publish();
}

}  // namespace locksley
