#include "core/lane/lane.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/batch/batch_failures.h"

namespace locksley {

void Lane::submit(const std::shared_ptr<Batch>& batch, std::uint64_t jobs, bool open, Start start) {
  const IndexRange range{0, jobs};
  const auto first = batch->jobs_added(jobs);
  // A batch that was cancelled before is closed, and over without these jobs.
  if (!first && batch->is_stopping()) return;
  check(first == 0U,
        "a batch is submitted a second time: make a new batch for more jobs, or leave it open and add them");
  if (!open) batch->close();
  enqueue(batch, {&range, jobs != 0 ? 1U : 0U}, open, start);
}

void Lane::enqueue(const std::shared_ptr<Batch>& batch, std::span<const IndexRange> ranges, bool open,
                   Start start) {
  RingQueue& queue = batch->ring_queue();
  attach(batch);
  // In descending order: a range below the highest index is served first, and of several such
  // ranges the one that was added last.
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) add_or_drop(*batch, *range);
  if (!open) ring_.close(queue, steady_now());
  // The batch was cancelled before the ring had it. If another thread cancels it right now, exactly
  // one of the two cancel() calls gets the jobs that the ring has.
  if (batch->is_stopping()) batch->jobs_dropped(ring_.cancel(queue, steady_now()));
  if (start == Start::kNow && !ranges.empty()) wake();
}

void Lane::attach(const std::shared_ptr<Batch>& batch) {
  const BatchOptions& options = batch->options();
  const Batch::ServedAs as = batch->served_as();
  ring_.attach(batch->ring_queue(),
               {.tenant = options.queue_tenant.empty() ? options.tenant : options.queue_tenant,
                .customer = options.customer,
                .weight = as.weight,
                .slots = as.slots,
                .kind = &batch->handler(),
                .batch = batch.get(),
                .results = options.results,
                .is_internal = options.is_internal,
                .gate = as.gate},
               batch);
  // A hold that comes later finds the queue in the ring, and pauses it.
  if (!batch->is_held()) return;
  const MutexLock lock(hold_mutex_);
  if (batch->is_held()) ring_.pause(batch->ring_queue(), steady_now());
}

void Lane::retry_due(const std::shared_ptr<Batch>& batch) {
  constexpr std::size_t kAtOnce = 256;  // some 30 us
  queue_again(batch, batch->take_due_retries(steady_now(), kAtOnce));
}

std::uint64_t Lane::retry_failed(const std::shared_ptr<Batch>& batch) {
  const std::uint64_t count = batch->failures().begin_requeue().jobs;
  if (count != 0) queue_again(batch, batch->failures().requeue());
  return count;
}

void Lane::queue_again(const std::shared_ptr<Batch>& batch, std::span<const IndexRange> ranges,
                       std::size_t more) {
  if (ranges.empty()) return;
  RingQueue& queue = batch->ring_queue();
  if (!ring_.queue_again(queue, ranges, steady_now(), more)) {
    // The queue left the ring when all its jobs were settled and none could be added: so it is
    // closed.
    attach(batch);
    if (!ring_.queue_again(queue, ranges, steady_now(), more))
      batch->jobs_dropped(ranges);  // cancelled since
    ring_.close(queue, steady_now());
  }
  // As in enqueue(): exactly one of the two cancel() calls gets the jobs.
  if (batch->is_stopping()) batch->jobs_dropped(ring_.cancel(queue, steady_now()));
  wake();
}

bool Lane::hand_over(const std::shared_ptr<Batch>& batch, Lane& to, GateId gate) {
  RingQueue& queue = batch->ring_queue();
  const auto taken = ring_.take_out(queue, steady_now());
  if (!taken) return false;
  batch->set_gate(gate);
  if (!taken->was_attached) return true;
  to.attach(batch);
  if (!to.ring_.queue_again(queue, taken->ranges, steady_now())) batch->jobs_dropped(taken->ranges);
  if (taken->is_closed) to.ring_.close(queue, steady_now());
  // As in enqueue(): the batch was cancelled in between.
  if (batch->is_stopping()) batch->jobs_dropped(to.ring_.cancel(queue, steady_now()));
  to.wake();
  return true;
}

std::optional<std::uint64_t> Lane::withdraw(Batch& batch, std::uint64_t from) {
  const std::shared_ptr<Batch> keep = batch.shared_from_this();
  const IndexRange withdrawn = ring_.withdraw(batch.ring_queue(), from, steady_now());
  if (withdrawn.empty()) return std::nullopt;
  batch.jobs_withdrawn(withdrawn.size());
  return withdrawn.low;
}

bool Lane::add_jobs(Batch& batch, std::uint64_t jobs) {
  const auto first = batch.jobs_added(jobs);
  if (!first) return false;
  enqueue_jobs(batch, {*first, *first + jobs});
  return true;
}

void Lane::enqueue_jobs(Batch& batch, IndexRange range) {
  if (add_or_drop(batch, range)) wake();
}

bool Lane::add_or_drop(Batch& batch, IndexRange range) {
  if (ring_.add_range(batch.ring_queue(), range, steady_now())) return true;
  // The batch was cancelled after its record had counted these jobs: they are cancelled, too.
  batch.jobs_dropped({&range, 1});
  return false;
}

void Lane::close(Batch& batch) {
  // The record first: the ring may release the batch once its queue is closed. The caller keeps it
  // meanwhile.
  batch.close();
  enqueue_close(batch);
}

void Lane::enqueue_close(Batch& batch) { ring_.close(batch.ring_queue(), steady_now()); }

void Lane::set_weight(Batch& batch, std::uint32_t weight) {
  weight = std::max(weight, 1U);
  batch.set_weight(weight);
  ring_.set_weight(batch.ring_queue(), weight);
}

void Lane::set_slots(Batch& batch, std::uint32_t slots) {
  batch.set_slots(slots);
  ring_.set_slots(batch.ring_queue(), slots, steady_now());
  wake();
}

void Lane::hold(Batch& batch, Hold reason) {
  {
    const MutexLock lock(hold_mutex_);
    batch.set_hold(reason);
    ring_.pause(batch.ring_queue(), steady_now());
  }
  tell_remote_to_stop();
}

void Lane::release(Batch& batch, Hold reason) {
  {
    const MutexLock lock(hold_mutex_);
    batch.clear_hold(reason);
    if (batch.is_held()) return;
    ring_.resume(batch.ring_queue(), steady_now());
  }
  wake();
}

std::uint64_t Lane::cancel(Batch& batch, std::string reason, RunningJobs running) {
  Cancelled cancelled = begin_cancel(batch, std::move(reason), running);
  while (!drop_some(batch, cancelled)) {
  }
  return cancelled.will_not_run;
}

Lane::Cancelled Lane::begin_cancel(Batch& batch, std::string reason, RunningJobs running) {
  Cancelled cancelled;
  {
    const MutexLock lock(hold_mutex_);
    cancelled.will_not_run = batch.stop(std::move(reason), running);
    cancelled.left = ring_.cancel(batch.ring_queue(), steady_now());
  }
  batch.close();
  tell_to_stop();
  return cancelled;
}

bool Lane::drop_some(Batch& batch, Cancelled& cancelled) {
  if (!cancelled.left.empty()) {
    const std::size_t count = std::min(cancelled.left.size(), Batch::kDroppedAtOnce);
    batch.jobs_dropped(std::span(cancelled.left).last(count));
    cancelled.left.resize(cancelled.left.size() - count);
    if (!cancelled.left.empty()) return false;
  }
  // Jobs that wait for a retry are not in the ring.
  const auto waiting = batch.take_due_retries(Nanoseconds::max(), Batch::kDroppedAtOnce);
  if (waiting.empty()) return true;
  batch.jobs_dropped(waiting);
  return false;
}

void Lane::cancel_after_failures(Batch& batch) {
  Cancelled cancelled =
      begin_cancel(batch, "cancelled after " + std::to_string(batch.options().max_fails) + " failed jobs");
  while (!drop_some(batch, cancelled)) {
    if (drop_rest_) return drop_rest_(batch.shared_from_this(), std::move(cancelled));
  }
}

void Lane::set_quantum(Nanoseconds quantum) {
  // [lane-quantum] relaxed: as in quantum().
  quantum_.store(quantum.count(), std::memory_order_relaxed);
  ring_.set_quantum(quantum);
}

std::optional<FairRing::Leases::Reclaimed> Lane::reclaim(Batch& batch, IndexRange wanted, std::uint32_t width,
                                                         Nanoseconds now) {
  std::optional<FairRing::Leases::Reclaimed> reclaimed;
  {
    // After hold() with this reason, executors get no more jobs of the batch, so that hand_over()
    // succeeds once none has any.
    const MutexLock lock(hold_mutex_);
    if (has(batch.holds(), Hold::kHandler)) return std::nullopt;
    reclaimed = ring_.leases().reclaim(batch.ring_queue(), wanted, width, now);
  }
  tell_of_wait();
  return reclaimed;
}

void Lane::give_back(Batch& batch, std::span<const IndexRange> ranges, std::uint64_t unused_starts,
                     Nanoseconds now) {
  const std::vector<IndexRange> dropped =
      ring_.leases().give_back(batch.ring_queue(), ranges, unused_starts, now);
  if (!dropped.empty()) batch.jobs_dropped(dropped);
  wake();
}

std::optional<Claim> Lane::settle(Batch& batch, const Settlement& settlement, Nanoseconds now, Next next,
                                  ClaimFilter filter, const GateSet* gates) {
  // Jobs that go back may be dropped after the ring has released the batch: this reference keeps
  // it.
  const std::shared_ptr<Batch> keep = settlement.left.empty() ? nullptr : batch.shared_from_this();
  Settled settled = next == Next::kClaim
                        ? ring_.settle_and_claim(batch.ring_queue(), settlement, now, filter, gates)
                        : ring_.settle(batch.ring_queue(), settlement, now);
  if (!settled.dropped.empty()) batch.jobs_dropped({&settled.dropped, 1});
  // A place of the batch or of its gate may be free that only a remote executor can use.
  wake_remote();
  tell_of_wait();
  return settled.claim;
}

}  // namespace locksley
