#include "core/ring/parts/ring_jobs.h"

#include <atomic>

#include "core/base/index_ranges.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_group.h"

namespace locksley {

void RingJobs::append(RingQueue& queue, std::uint64_t n) {
  queue.jobs_.append(n);
  change_queued(queue, n);
}

void RingJobs::add(RingQueue& queue, IndexRange range) {
  queue.jobs_.add(range);
  note_memory(queue);
  change_queued(queue, range.size());
}

void RingJobs::queue_again(RingQueue& queue, QueuedJobs::Prepared& prepared) {
  const std::uint64_t jobs = prepared.jobs();
  queue.jobs_.queue_again(prepared);
  note_memory(queue);
  change_queued(queue, jobs);
}

IndexRange RingJobs::withdraw(RingQueue& queue, std::uint64_t from) {
  const IndexRange withdrawn = queue.jobs_.withdraw(from);
  if (!withdrawn.empty()) change_queued(queue, -withdrawn.size());
  return withdrawn;
}

std::vector<IndexRange> RingJobs::take_all(RingQueue& queue) {
  const std::uint64_t jobs = queue.jobs_.size();
  std::vector<IndexRange> all = queue.jobs_.take_all();
  note_memory(queue);
  change_queued(queue, -jobs);
  return all;
}

std::vector<IndexRange> RingJobs::take_memory(RingQueue& queue) {
  std::vector<IndexRange> memory = queue.jobs_.take_memory();
  note_memory(queue);
  return memory;
}

std::vector<IndexRange> RingJobs::reclaim(RingQueue& queue, IndexRange wanted, std::size_t most) {
  std::vector<IndexRange> taken = queue.jobs_.take_common(wanted, most);
  if (taken.empty()) return taken;
  note_memory(queue);
  const std::uint64_t jobs = count_of(taken);
  change_queued(queue, -jobs);
  queue.claimed_ += jobs;
  claimed_ += jobs;
  return taken;
}

void RingJobs::give_back(RingQueue& queue, IndexRange range) {
  queue.jobs_.give_back(range);
  note_memory(queue);
  change_queued(queue, range.size());
}

void RingJobs::change_queued(RingQueue& queue, std::uint64_t by) {
  RingGroup& group = queue.seat_->group;
  group.queued += by;
  if (group.tenant != nullptr) [[unlikely]]
    group.tenant->queued += by;
  queue.seat_->gate.queued += by;
  depths_.update(queue);
}

void RingJobs::change_active(RingQueue& queue, bool active) {
  queue.is_active_ = active;
  const std::uint64_t by = active ? 1 : -std::uint64_t{1};
  active_queues_ += by;
  queue.seat_->gate.active_queues += by;
}

}  // namespace locksley
