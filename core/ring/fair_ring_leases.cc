#include "core/ring/fair_ring_leases.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index_ranges.h"

namespace locksley {

void FairRing::Leases::charge_so_far(RingQueue& queue, Charge& charged, Nanoseconds service,
                                     Nanoseconds now) {
  const RingLock lock(ring_.mutex_);
  check(queue.seat_ != nullptr && queue.fair.executors > 0, "a charge without a turn");
  if (ring_.costs_.share() != Share::kTime) return;
  RingSeat& seat = *queue.seat_;
  const bool has_reentered = RunningTurns::has_reentered(queue, charged);
  charged.queue = RingLevel::charge_so_far(queue.fair, charged.queue, has_reentered, service.count());
  // A turn that began when the group was the tenant stays charged to that one alone, until it
  // settles.
  FairCharge& of_tenant = charged.is_of_customer() ? charged.tenant : charged.group;
  if (seat.parent == nullptr || charged.is_of_customer())
    seat.group.charge_so_far(seat, charged.group, service.count());
  if (seat.parent != nullptr) seat.parent->group.charge_so_far(*seat.parent, of_tenant, service.count());
  ring_.refresh(queue, now);
  ring_.publish();
}

std::vector<IndexRange> FairRing::Leases::give_back(RingQueue& queue, std::span<const IndexRange> ranges,
                                                    std::uint64_t unused_starts, Nanoseconds now) {
  const RingLock lock(ring_.mutex_);
  const std::uint64_t jobs = count_of(ranges);
  check(queue.seat_ != nullptr && queue.fair.executors > 0 && jobs <= queue.claimed_,
        "jobs are given back that were not claimed");
  ring_.jobs_.settle(queue, jobs);
  for (RingGroup* group = &queue.seat_->group; group != nullptr; group = group->tenant)
    group->rate.refund(unused_starts);
  if (queue.cancelled_) {
    ring_.refresh(queue, now);  // the starts are for the other queues of its group
    ring_.publish();
    return {ranges.begin(), ranges.end()};
  }
  // From the top, so that the lowest indexes are served first.
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) ring_.jobs_.give_back(queue, *range);
  ring_.arrive(queue, now);
  ring_.publish();
  return {};
}

std::optional<FairRing::Leases::Reclaimed> FairRing::Leases::reclaim(RingQueue& queue, IndexRange wanted,
                                                                     std::uint32_t width, Nanoseconds now) {
  const RingLock lock(ring_.mutex_);
  if (queue.ring_ != &ring_ || wanted.empty()) return std::nullopt;
  Reclaimed reclaimed;
  reclaimed.ranges = ring_.jobs_.reclaim(queue, wanted, kMostSearched);
  if (reclaimed.ranges.empty()) return std::nullopt;
  const std::uint64_t jobs = count_of(reclaimed.ranges);
  reclaimed.charged = ring_.join_locked(queue, jobs, now);
  ring_.turns_.begin_lease(queue, reclaimed.charged,
                           static_cast<std::uint32_t>(std::min<std::uint64_t>(width, jobs)), Site::kRemote);
  ring_.refresh(queue, now);
  ring_.publish();
  return reclaimed;
}

bool FairRing::Leases::others_wait(const RingQueue& queue, const GateSet& gates) const {
  const RingLock lock(ring_.mutex_);
  const RingGate* const own = queue.seat_ == nullptr ? nullptr : &queue.seat_->gate;
  return std::ranges::any_of(ring_.gates_.open(), [&](const RingGate* gate) LOCKSLEY_REQUIRES(kFairNodes) {
    return gates.has(gate->id) && (gate->ready & ReadyHints::kRemote) != 0 &&
           gate->queued > (gate == own ? queue.jobs_.size() : 0);
  });
}

}  // namespace locksley
