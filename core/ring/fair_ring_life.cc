// A queue's life: how it comes into a ring, gets jobs, and leaves.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/index_ranges.h"
#include "core/ring/fair_ring_gates.h"

namespace locksley {

void FairRing::attach(RingQueue& queue, const QueueOptions& options, std::shared_ptr<void> keepalive) {
  const RingLock lock(mutex_);
  check(queue.seat_ == nullptr, "a queue is attached twice");
  RingGate& gate = gates_.at(options.gate);
  RingSeat& seat = standings_.enter(options.tenant, options.customer, gate);
  RingGroup& group = seat.group;
  queue.seat_ = &seat;
  queue.ring_ = this;
  queue.batch_ = options.batch;
  queue.kind_ = options.kind;
  queue.keepalive_ = std::move(keepalive);
  queue.next_ = std::exchange(group.first, &queue);
  queue.previous_ = nullptr;
  if (queue.next_ != nullptr) queue.next_->previous_ = &queue;
  ++gate.queues;
  queue.internal_ = options.is_internal;
  GroupStandings::change_queues(group, queue, 1);
  if (options.results != nullptr) (group.tenant == nullptr ? group : *group.tenant).results = options.results;

  queue.fair.key = seat.level.now();
  queue.fair.entry = 0;
  queue.fair.weight = std::max(options.weight, 1U);
  queue.fair.remainder = 0;
  queue.slots_ = options.slots;
  queue.capped_ = options.slots != 0 ? Charge::kCapped : std::uint16_t{0};
  queue.closed_ = queue.cancelled_ = queue.paused_ = false;
  queue.cost_.begin(options.cost_hint);
}

bool FairRing::add_jobs(RingQueue& queue, std::uint64_t n, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr || queue.closed_) return false;
  jobs_.append(queue, n);
  arrive(queue, now);
  publish();
  return true;
}

bool FairRing::add_range(RingQueue& queue, IndexRange range, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr || queue.closed_) return false;
  jobs_.add(queue, range);
  arrive(queue, now);
  publish();
  return true;
}

bool FairRing::queue_again(RingQueue& queue, std::span<const IndexRange> ranges, Nanoseconds now,
                           std::size_t more) {
  QueuedJobs::Prepared prepared(ranges, more);  // made, and freed, without the lock
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return false;
  jobs_.queue_again(queue, prepared);
  arrive(queue, now);
  publish();
  return true;
}

void FairRing::arrive(RingQueue& queue, Nanoseconds now) {
  const bool was_ready = queue.fair.is_ready();
  refresh(queue, now);
  if (!was_ready && queue.fair.is_ready()) hints_.count_arrival();
}

void FairRing::close(RingQueue& queue, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return;
  queue.closed_ = true;
  refresh(queue, now);
  if (queue.is_over()) released = leave(queue);
  publish();
}

std::vector<IndexRange> FairRing::cancel(RingQueue& queue, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return {};
  std::vector<IndexRange> dropped = jobs_.take_all(queue);
  queue.closed_ = queue.cancelled_ = true;
  queue.paused_ = false;
  waits_.end_backoff(queue);
  refresh(queue, now);
  if (queue.is_over()) released = leave(queue);
  publish();
  return dropped;
}

IndexRange FairRing::withdraw(RingQueue& queue, std::uint64_t from, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return {};
  const IndexRange withdrawn = jobs_.withdraw(queue, from);
  if (withdrawn.empty()) return {};
  refresh(queue, now);
  if (queue.is_over()) released = leave(queue);
  publish();
  return withdrawn;
}

std::optional<FairRing::TakenOut> FairRing::take_out(RingQueue& queue, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  TakenOut taken;
  {
    const RingLock lock(mutex_);
    if (queue.seat_ == nullptr) return taken;
    if (queue.claimed_ != 0 || queue.fair.executors != 0) return std::nullopt;
    taken.was_attached = true;
    taken.is_closed = queue.closed_;
    taken.ranges = jobs_.take_all(queue);
    queue.closed_ = true;
    queue.paused_ = false;
    waits_.end_backoff(queue);
    queue.breaks_ = 0;
    refresh(queue, now);
    if (queue.is_over()) released = leave(queue);
    publish();
  }
  taken.ranges = sorted(std::move(taken.ranges));
  return taken;
}

void FairRing::detach_all() {
  std::vector<std::shared_ptr<void>> released;  // outlives the lock
  const RingLock lock(mutex_);
  check(turns_.executors() == 0, "a ring is given up while it has executors");
  for (RingQueue* const queue : book_.queues()) {
    check(queue->claimed_ == 0, "a ring is given up while a thief holds jobs of it");
    (void)jobs_.take_all(*queue);
    refresh(*queue, Nanoseconds{0});
    released.push_back(leave(*queue));
  }
  book_.clear();
  publish();
}

std::shared_ptr<void> FairRing::leave(RingQueue& queue) {
  waits_.end_backoff(queue);
  RingSeat& seat = *std::exchange(queue.seat_, nullptr);
  queue.ring_ = nullptr;
  RingGroup& group = seat.group;
  --seat.gate.queues;
  (queue.previous_ != nullptr ? queue.previous_->next_ : group.first) = queue.next_;
  if (queue.next_ != nullptr) queue.next_->previous_ = queue.previous_;
  for (StartAnewWalk* walk = walks_; walk != nullptr; walk = walk->other_) {
    if (walk->queue_ == &queue) walk->queue_ = queue.next_;
  }
  queue.previous_ = queue.next_ = nullptr;
  GroupStandings::change_queues(group, queue, -std::uint64_t{1});
  if (group.queues == 0) standings_.rest(group);
  if (queue.jobs_.memory_bytes() == 0) return std::move(queue.keepalive_);
  struct Released {
    std::shared_ptr<void> keepalive;
    std::vector<IndexRange> ranges;
  };
  return std::make_shared<Released>(std::move(queue.keepalive_), RingJobs::take_memory(queue));
}

}  // namespace locksley
