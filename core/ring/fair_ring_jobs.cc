// The jobs of a queue: which are left to claim, how many a claim takes, and what they have cost.
#include <algorithm>
#include <utility>

#include "core/ring/fair_ring.h"

namespace locksley {

namespace {

// The executors share the last jobs of a batch, but none gets less than this part of a quantum:
// what a claim itself costs would be more than what the others save. Guesses. A lease costs the two
// machines together some 100 us of processor time, and a remote worker's quantum is at least 10 ms.
constexpr std::uint64_t kLeastPart = 100;
constexpr std::uint64_t kLeastPartOfLease = 10;

// The least service that `starts` starts are charged.
std::int64_t service_of_starts(const GateOptions& options, std::uint64_t starts) {
  const auto cost = static_cast<std::uint64_t>(options.start_cost.count());
  if (cost == 0) return 0;
  constexpr auto kMost = static_cast<std::uint64_t>(RingLevel::kMostService);
  return static_cast<std::int64_t>(starts > kMost / cost ? kMost : starts * cost);
}

}  // namespace

void FairRing::change_queued(RingQueue& queue, std::uint64_t by) {
  RingGroup& group = queue.seat_->group;
  group.queued += by;
  if (group.tenant != nullptr) [[unlikely]]
    group.tenant->queued += by;
  queue.seat_->gate.queued += by;
  depths_.update(queue);
}

void FairRing::change_active(RingQueue& queue, bool active) {
  queue.is_active_ = active;
  const std::uint64_t by = active ? 1 : -std::uint64_t{1};
  active_queues_ += by;
  queue.seat_->gate.active_queues += by;
}

void FairRing::give_back(RingQueue& queue, IndexRange range) {
  queue.jobs_.give_back(range);
  note_memory(queue);
  change_queued(queue, range.size());
}

IndexRange FairRing::take(RingQueue& queue, std::uint64_t most) {
  const IndexRange taken = queue.jobs_.take(most);
  change_queued(queue, -taken.size());
  return taken;
}

std::uint64_t FairRing::claim_size(RingQueue& queue, Nanoseconds quantum, Site site) const {
  const bool is_remote = site == Site::kRemote;
  const std::uint64_t size =
      queue.cost_.next_claim(quantum, is_remote ? JobCost::kLeaseGrowth : JobCost::kGrowth);
  std::uint64_t executors = options_.parallelism;
  const std::uint32_t at_gate = queue.seat_->gate.most;
  if ((queue.slots_ | at_gate) != 0) [[unlikely]] {
    if (queue.slots_ != 0) executors = std::min<std::uint64_t>(executors, queue.slots_);
    if (at_gate != 0) executors = std::min<std::uint64_t>(executors, at_gate);
  }
  const std::uint64_t share = (queue.jobs_.size() + executors - 1) / executors;
  return std::min(size, std::max(share, size / (is_remote ? kLeastPartOfLease : kLeastPart)));
}

void FairRing::learn_cost(RingQueue& queue, const Settlement& settlement) {
  std::uint64_t jobs = settlement.executed;
  if (settlement.charged.lease != 0) [[unlikely]] {
    // The executors of a lease whose jobs went back have used their time for a job each.
    // A lease in which no job ended says nothing of the cost.
    if (jobs == 0) return;
    jobs = std::max<std::uint64_t>(jobs, settlement.charged.width());
  }
  if (!queue.cost_.learn(settlement.actual, jobs)) return;
  for (RingSeat* each = queue.seat_; each != nullptr; each = each->parent)
    each->first_costs.learn(queue.kind_, queue.cost_.mean());
}

std::int64_t FairRing::expected_service(const RingGate& gate, Nanoseconds time, std::uint64_t jobs) const {
  if (options_.share == Share::kJobs) return static_cast<std::int64_t>(jobs) * kJobService;
  return std::max(std::int64_t{time.count()}, service_of_starts(gate.options, jobs));
}

FairRing::Service FairRing::service_of(const RingGate& gate, const Settlement& settlement) const {
  if (options_.share == Share::kTime) {
    const std::int64_t in_lane = settlement.actual.count();
    const std::uint64_t starts = std::max(settlement.executed, settlement.started);
    return {.at_gate = std::max(in_lane, service_of_starts(gate.options, starts)), .in_lane = in_lane};
  }
  // A turn that ran sub-jobs only counts as one job: else a queue of such turns would stay at the
  // top forever.
  constexpr std::uint64_t kMostJobs = std::uint64_t{1} << 40;  // so that the product with kJobService fits
  const bool free = settlement.executed == 0 && settlement.actual.count() <= 0;
  const std::uint64_t jobs = free ? 0 : std::clamp<std::uint64_t>(settlement.executed, 1, kMostJobs);
  const std::int64_t service = static_cast<std::int64_t>(jobs) * kJobService;
  return {.at_gate = service, .in_lane = service};
}

JobLength FairRing::length_of(const RingQueue& queue) const {
  if (options_.brief_job.count() == 0) return JobLength::kBrief;
  const auto most = static_cast<double>(options_.brief_job.count());
  const auto length = [](bool is_brief) { return is_brief ? JobLength::kBrief : JobLength::kLengthy; };
  if (queue.cost_.is_known()) return length(queue.cost_.mean() <= most);
  // The cost is unknown: one worker of those for brief jobs may find it out. If the first jobs of
  // the tenant's latest queues were lengthy, one worker for all its customers.
  const RingSeat& seat = *queue.seat_;
  if (queue.fair.executors != 0 || seat.first_costs.least(queue.kind_) > most) return JobLength::kLengthy;
  const RingSeat* const tenant = seat.parent;
  return length(tenant == nullptr || tenant->first_turns == 0 ||
                tenant->first_costs.least(queue.kind_) <= most);
}

void FairRing::note_first_turn(RingQueue& queue) {
  const bool in_first_turn = !queue.cost_.is_known() && queue.fair.executors > 0;
  if (std::exchange(queue.in_first_turn_, in_first_turn) == in_first_turn) return;
  for (RingSeat* each = queue.seat_; each != nullptr; each = each->parent)
    each->first_turns += in_first_turn ? 1U : -1U;
}

}  // namespace locksley
